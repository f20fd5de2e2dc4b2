"""Every label, annotation and environment key that the library writes or reads.

A selector that differs from a label by one character selects nothing, without an error. So all keys
are defined here. The comment above each key names who depends on it.
"""

from __future__ import annotations

PREFIX = "fusioninfer.io/"

# On every object and on every serving pod; read by the Service, the InferencePool, the PodGroup's
# subGroupPolicy and by people (`kubectl get pods -l fusioninfer.io/service=...`).
SERVICE = f"{PREFIX}service"
COMPONENT_TYPE = f"{PREFIX}component-type"
ROLE_NAME = f"{PREFIX}role-name"
# An integer as text: Volcano orders the subgroups of a PodGroup by it.
REPLICA_INDEX = f"{PREFIX}replica-index"
# Serving group, only where a service has `groups`; the endpoint picker pairs prefill with decode
# pods that have the same value.
GROUP_INDEX = f"{PREFIX}group-index"
# Hash of the role's pod templates: identifies the revision of a pod during a rollout.
REVISION = f"{PREFIX}revision"
# Hash of what prefill and decode engines compare before they exchange a KV cache: pods with the
# same value can. The endpoint picker prefers such pods for one request.
PAIR_REVISION = f"{PREFIX}pair-revision"

# Selects the endpoint picker's pods, together with the component type, which no serving pod has.
# Picker pods have neither the service's label nor LeaderWorkerSet's labels, so that no selector of
# serving pods matches them.
APP = "app"
# On the picker's pod template: a changed configuration restarts the picker, which reads it only at
# start.
CONFIG_CHECKSUM = f"{PREFIX}config-checksum"
#: Annotation of a service: ids of the rules whose warnings it ignores, with commas between them.
IGNORE_RULES = f"{PREFIX}ignore-rules"

OWNED_LABELS = frozenset(
    {SERVICE, COMPONENT_TYPE, ROLE_NAME, REPLICA_INDEX, GROUP_INDEX, REVISION, PAIR_REVISION}
)

# `prefill` or `decode` on the leaders of a service whose picker pairs them: read by llm-d's filters
# `prefill-filter` and `decode-filter`, which a user's own configuration may name. Generated
# configurations use the component type instead.
LLM_D_ROLE = "llm-d.ai/role"

# The only key by which the Volcano scheduler finds a pod's PodGroup (job_info.go, getJobID).
GROUP_NAME = "scheduling.k8s.io/group-name"
# Names the pod's task: minTaskMember never matches without it.
TASK_SPEC = "volcano.sh/task-spec"
# Read by Volcano's PodGroup controller when it creates a PodGroup itself (pods without a gang).
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GANG_ANNOTATIONS = frozenset({GROUP_NAME, TASK_SPEC})

# On a LeaderWorkerSet: the LocalQueue in which Kueue holds its replicas. Kueue's webhook rejects a
# change of it.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
# The scheduling gate of pods whose replica Kueue has not admitted.
KUEUE_GATE = "kueue.x-k8s.io/admission"

#: Variables that Kthena's controller sets in its pods. A reference expands only to variables before
#: it, and LeaderWorkerSet's webhook puts its own first.
KTHENA_ENVIRONMENT = {
    "GROUP_SIZE": "$(LWS_GROUP_SIZE)",
    "ENTRY_ADDRESS": "$(LWS_LEADER_ADDRESS)",
    "WORKER_INDEX": "$(LWS_WORKER_INDEX)",
}

LWS_PREFIX = "leaderworkerset.sigs.k8s.io/"
# Name of a pod's LeaderWorkerSet.
LWS_NAME = f"{LWS_PREFIX}name"
# "0" on leaders, set by LeaderWorkerSet's pod webhook; also on the only pod of a size-1 group.
LWS_WORKER_INDEX = f"{LWS_PREFIX}worker-index"
# Index of a pod's group in its LeaderWorkerSet: identifies the replica where one LeaderWorkerSet
# runs all replicas of a role.
LWS_GROUP_INDEX = f"{LWS_PREFIX}group-index"
LWS_EXCLUSIVE_TOPOLOGY = f"{LWS_PREFIX}exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY = f"{LWS_PREFIX}subgroup-exclusive-topology"
# LeaderWorkerSet writes these on every pod and overwrites a user's values. Where it does not
# (group-index, group-key), the LeaderWorkerSet never becomes Available or confuses its groups.
LWS_OWNED_LABELS = frozenset(
    {
        LWS_NAME,
        LWS_WORKER_INDEX,
        LWS_GROUP_INDEX,
        f"{LWS_PREFIX}group-key",
        f"{LWS_PREFIX}template-revision-hash",
        f"{LWS_PREFIX}subgroup-index",
        f"{LWS_PREFIX}subgroup-key",
    }
)

# On the objects of a service whose source manifest selected clusters: the label selector, and the
# tolerated taints of clusters (JSON). For people only: Pulumi's provider or kubectl's context
# decides the cluster.
CLUSTER_SELECTOR = f"{PREFIX}cluster-selector"
CLUSTER_TOLERATIONS = f"{PREFIX}cluster-tolerations"

# Read by Pulumi's Kubernetes provider: it does not wait for the object.
PULUMI_SKIP_AWAIT = "pulumi.com/skipAwait"

# Labels with which cloud providers and Karpenter name node pools: placement writes them into node
# selectors.
NODE_POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)

# Model and memory (MiB) of a node's accelerators: NVIDIA's GPU feature discovery, GKE, Karpenter on
# AWS.
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
