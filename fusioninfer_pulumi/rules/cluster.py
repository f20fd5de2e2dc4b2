"""Rules of what a cluster has to offer; listed without importing Pulumi."""

from fusioninfer_pulumi.findings import Rule

API_NOT_SERVED = Rule(
    "api-not-served",
    "error",
    "The cluster serves the API that the services need.",
    remedy="Install the product as the message says.",
)
CLUSTER_NOT_CHECKED = Rule(
    "cluster-not-checked",
    "warning",
    "The cluster's prerequisites were checked.",
    remedy="Give the program access to the cluster.",
)
CRD_FIELD_MISSING = Rule(
    "crd-field-missing",
    "error",
    "A kind has the field that the services need.",
    remedy="Upgrade the product.",
)
CRD_NOT_INSTALLED = Rule(
    "crd-not-installed",
    "error",
    "The cluster has the kinds that the services need.",
    remedy="Install the product as the message says.",
)
CRD_VERSION_NOT_SERVED = Rule(
    "crd-version-not-served",
    "error",
    "The cluster serves the version of a kind that the services need.",
    remedy="Upgrade the product.",
)
FEATURE_GATE_OFF_BY_DEFAULT = Rule(
    "feature-gate-off-by-default",
    "warning",
    "A feature gate that is off by default is switched on.",
    remedy="Switch it on, or use a newer release.",
)
KUBERNETES_TOO_OLD = Rule(
    "kubernetes-too-old",
    "error",
    "Kubernetes has what the service needs.",
    remedy="Upgrade the cluster, or leave the feature out.",
)
LWS_GANG_PROVIDER_ON = Rule(
    "lws-gang-provider-on",
    "error",
    "LeaderWorkerSet's own gang provider is off.",
    remedy="Remove `gangSchedulingManagement` from its configuration.",
    source="tests against LeaderWorkerSet 0.9",
)
LWS_GANG_PROVIDER_UNKNOWN = Rule(
    "lws-gang-provider-unknown",
    "warning",
    "Whether LeaderWorkerSet's own gang provider is off is known.",
    remedy="Check its configuration.",
)
NAMED_OBJECT_MISSING = Rule(
    "named-object-missing",
    ("error", "warning"),
    "Objects that are named exist in the cluster.",
    remedy="Create the object, or correct its name.",
)
RELEASE_NOT_SUPPORTED = Rule(
    "release-not-supported",
    "error",
    "The release of a product is one that works.",
    remedy="Upgrade the product.",
)
RELEASE_UNKNOWN = Rule(
    "release-unknown",
    "warning",
    "The release of a product in the cluster is known.",
    remedy="Check it by hand.",
)
STATEFULSET_KEEPS_BROKEN_PODS = Rule(
    "statefulset-keeps-broken-pods",
    "warning",
    "StatefulSets replace pods that never became ready.",
    remedy="Delete the leader pod of a replica that stays broken.",
    source="kubernetes#137409",
)
