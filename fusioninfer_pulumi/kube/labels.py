"""Every label, annotation and environment key that the library writes or reads.

A selector that differs from a label by one character selects nothing, without an error. So all keys
are defined here, with a comment on who reads them.
"""

from __future__ import annotations

PREFIX = "fusioninfer.io/"

# On every object and serving pod. The Service, the InferencePool, the PodGroup's subGroupPolicy and
# people select by it (`kubectl get pods -l fusioninfer.io/service=...`).
SERVICE = f"{PREFIX}service"
# On serving pods, and on objects that belong to one role.
COMPONENT_TYPE = f"{PREFIX}component-type"
ROLE_NAME = f"{PREFIX}role-name"
# An integer, because Volcano orders the subgroups of a PodGroup by it.
REPLICA_INDEX = f"{PREFIX}replica-index"
# Serving group, only if the service has `groups`. The endpoint picker pairs prefill and decode pods
# of the same serving group.
GROUP_INDEX = f"{PREFIX}group-index"
# Hash of the role's pod templates. It tells old pods from new ones during a rollout.
REVISION = f"{PREFIX}revision"
# Hash of the settings that prefill and decode engines compare before they transfer a KV cache. The
# endpoint picker prefers prefill and decode pods with the same hash for one request.
PAIR_REVISION = f"{PREFIX}pair-revision"

# Selects the endpoint picker's pods, together with the component type `router`. Picker pods have
# neither the service's label nor LeaderWorkerSet's labels, so that no selector of serving pods
# matches them.
APP = "app"
# On the picker's pod template, so that a changed configuration restarts the picker, which reads it
# only at start.
CONFIG_CHECKSUM = f"{PREFIX}config-checksum"
#: Annotation of a service: comma-separated ids of rules whose warnings and infos are ignored.
IGNORE_RULES = f"{PREFIX}ignore-rules"

# Labels that users must not set.
OWNED_LABELS = frozenset(
    {SERVICE, COMPONENT_TYPE, ROLE_NAME, REPLICA_INDEX, GROUP_INDEX, REVISION, PAIR_REVISION}
)

# `prefill` or `decode` on leaders of disaggregated services. llm-d's plugins `prefill-filter` and
# `decode-filter` read it if a user's picker configuration has them. Generated configurations use
# the component type instead.
LLM_D_ROLE = "llm-d.ai/role"

# The only key by which the Volcano scheduler finds a pod's PodGroup (job_info.go, getJobID).
GROUP_NAME = "scheduling.k8s.io/group-name"
# The pod's Volcano task. `minTaskMember` does not count pods without it.
TASK_SPEC = "volcano.sh/task-spec"
# Read by Volcano's PodGroup controller, which creates a PodGroup per workload for pods without one.
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GANG_ANNOTATIONS = frozenset({GROUP_NAME, TASK_SPEC})

# On a LeaderWorkerSet: Kueue's LocalQueue for its replicas. Kueue's webhook rejects changes.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
# Scheduling gate that Kueue keeps on a replica's pods until it admits the replica.
KUEUE_GATE = "kueue.x-k8s.io/admission"

#: Variables that Kthena's controller sets in its pods. The references in the values are expanded,
#: because LeaderWorkerSet's webhook puts its own variables before these.
KTHENA_ENVIRONMENT = {
    "GROUP_SIZE": "$(LWS_GROUP_SIZE)",
    "ENTRY_ADDRESS": "$(LWS_LEADER_ADDRESS)",
    "WORKER_INDEX": "$(LWS_WORKER_INDEX)",
}

LWS_PREFIX = "leaderworkerset.sigs.k8s.io/"
# Name of a pod's LeaderWorkerSet.
LWS_NAME = f"{LWS_PREFIX}name"
# Set by LeaderWorkerSet's pod webhook: "0" on leaders, also on the only pod of a size-1 group.
LWS_WORKER_INDEX = f"{LWS_PREFIX}worker-index"
# Index of a pod's group in its LeaderWorkerSet: the replica's index if one LeaderWorkerSet runs all
# replicas of a role.
LWS_GROUP_INDEX = f"{LWS_PREFIX}group-index"
LWS_EXCLUSIVE_TOPOLOGY = f"{LWS_PREFIX}exclusive-topology"
# Labels that LeaderWorkerSet sets on pods. It overwrites users' values, except those of group-index
# and group-key, with which it mixes up its groups or never becomes Available.
LWS_OWNED_LABELS = frozenset({
    LWS_NAME, LWS_WORKER_INDEX, LWS_GROUP_INDEX, f"{LWS_PREFIX}group-key",
    f"{LWS_PREFIX}template-revision-hash", f"{LWS_PREFIX}subgroup-index",
    f"{LWS_PREFIX}subgroup-key",
})  # fmt: skip

# On the objects of an imported service whose source manifest selects clusters: the label selector,
# and the tolerated taints of clusters (JSON). Only people read them, because Pulumi's provider or
# kubectl's context determines the cluster.
CLUSTER_SELECTOR = f"{PREFIX}cluster-selector"
CLUSTER_TOLERATIONS = f"{PREFIX}cluster-tolerations"

# Pulumi's Kubernetes provider does not wait for objects with this annotation.
PULUMI_SKIP_AWAIT = "pulumi.com/skipAwait"

# Node labels of cloud providers and Karpenter that contain the node pool's name. Placement writes
# them into node selectors.
NODE_POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)

# Node labels with the accelerators' model and memory (MiB): NVIDIA's GPU feature discovery, GKE,
# Karpenter on AWS.
ACCELERATOR_MODEL = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
ACCELERATOR_MEMORY = ("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory")
# Different on every node, so never the label of a pool.
HOSTNAME = "kubernetes.io/hostname"
# Prefix of the taints that Kubernetes adds and removes with a node's conditions.
NODE_CONDITION_TAINTS = "node.kubernetes.io/"
