"""Rules of what a cluster has to offer; listed without importing Pulumi."""

from fusioninfer_pulumi.findings import Rule

CRD_NOT_INSTALLED = Rule("crd-not-installed")
RELEASE_NOT_SUPPORTED = Rule("release-not-supported")
RELEASE_UNKNOWN = Rule("release-unknown")

CLUSTER_NOT_CHECKED = Rule("cluster-not-checked")
FEATURE_GATE_OFF_BY_DEFAULT = Rule("feature-gate-off-by-default")
LWS_GANG_PROVIDER_ON = Rule("lws-gang-provider-on")
NAMED_OBJECT_MISSING = Rule("named-object-missing")
REPLACEMENT_NEEDS_ROOM = Rule("replacement-needs-room")
STATEFULSET_KEEPS_BROKEN_PODS = Rule("statefulset-keeps-broken-pods")
