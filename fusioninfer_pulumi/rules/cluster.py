"""Rules of what a cluster has to offer; listed without importing Pulumi."""

from fusioninfer_pulumi.findings import Rule

CRD_NOT_INSTALLED = Rule(
    "crd-not-installed",
    "error",
    "The cluster serves the kinds, versions and fields that the services need.",
    remedy="Install or upgrade the product as the message says.",
)
RELEASE_NOT_SUPPORTED = Rule(
    "release-not-supported",
    "error",
    "The release of Kubernetes, or of a product, is one that works.",
    remedy="Upgrade it, or leave the feature out.",
)
RELEASE_UNKNOWN = Rule(
    "release-unknown",
    "warning",
    "The release of a product in the cluster is known, and its settings.",
    remedy="Check it by hand.",
)

CLUSTER_NOT_CHECKED = Rule(
    "cluster-not-checked",
    "warning",
    "The cluster's prerequisites were checked.",
    remedy="Give the program access to the cluster.",
)
FEATURE_GATE_OFF_BY_DEFAULT = Rule(
    "feature-gate-off-by-default",
    "warning",
    "A feature gate that is off by default is switched on.",
    remedy="Switch it on, or use a newer release.",
)
LWS_GANG_PROVIDER_ON = Rule(
    "lws-gang-provider-on",
    "error",
    "LeaderWorkerSet's own gang provider is off.",
    remedy="Remove `gangSchedulingManagement` from its configuration.",
    source="tests against LeaderWorkerSet 0.9",
)
NAMED_OBJECT_MISSING = Rule(
    "named-object-missing",
    ("error", "warning"),
    "A service names an object that the cluster does not have.",
    remedy="Create the object, or correct its name.",
)
STATEFULSET_KEEPS_BROKEN_PODS = Rule(
    "statefulset-keeps-broken-pods",
    "warning",
    "StatefulSets replace pods that never became ready.",
    remedy="Delete the leader pod of a replica that stays broken.",
    source="kubernetes#137409",
)
