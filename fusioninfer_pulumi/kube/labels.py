"""Every label, annotation and environment key that the library writes or reads.

One place owns them, because a selector that differs from a label by one character selects nothing
and nobody says so. The comment beside each key names who depends on it.
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
# Hash of the role's pod templates; tells which pods are of which revision during a rollout.
REVISION = f"{PREFIX}revision"

# Selects the endpoint picker's pods, together with the component type, which no serving pod can
# have. They carry neither the service's label, by which people select what serves, nor any of
# LeaderWorkerSet's, which every selector of serving pods asks for.
APP = "app"
# On the picker's pod template: the picker reads its configuration once, when it starts.
CONFIG_CHECKSUM = f"{PREFIX}config-checksum"

OWNED_LABELS = frozenset({SERVICE, COMPONENT_TYPE, ROLE_NAME, REPLICA_INDEX, GROUP_INDEX, REVISION})

# `prefill` or `decode` on the leaders of a service whose picker pairs them: read by llm-d's filters
# `prefill-filter` and `decode-filter`, which a user's own configuration may name. What we generate
# asks for the component type instead.
LLM_D_ROLE = "llm-d.ai/role"

# The only key by which the Volcano scheduler finds a pod's PodGroup (job_info.go, getJobID).
GROUP_NAME = "scheduling.k8s.io/group-name"
# Names the pod's task: minTaskMember never matches without it.
TASK_SPEC = "volcano.sh/task-spec"
# Read by Volcano's podgroup controller when it makes a PodGroup by itself (no gang of ours).
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
# A user's own order of a gang's pods; the capacity model does not know it.
TASK_PRIORITY = "volcano.sh/task-priority"
GANG_ANNOTATIONS = frozenset({GROUP_NAME, TASK_SPEC})

#: What Kthena's controller sets in its pods, by the variables that LeaderWorkerSet's webhook puts
#: in front of all others: a reference expands only to what stands before it.
KTHENA_ENVIRONMENT = {
    "GROUP_SIZE": "$(LWS_GROUP_SIZE)",
    "ENTRY_ADDRESS": "$(LWS_LEADER_ADDRESS)",
    "WORKER_INDEX": "$(LWS_WORKER_INDEX)",
}

LWS_PREFIX = "leaderworkerset.sigs.k8s.io/"
# The set that a pod belongs to.
LWS_NAME = f"{LWS_PREFIX}name"
# "0" on leaders, set by LeaderWorkerSet's pod webhook; also on the only pod of a size-1 group.
LWS_WORKER_INDEX = f"{LWS_PREFIX}worker-index"
# Index of a pod's group in its set; tells replicas apart where one set runs all of a role.
LWS_GROUP_INDEX = f"{LWS_PREFIX}group-index"
LWS_EXCLUSIVE_TOPOLOGY = f"{LWS_PREFIX}exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY = f"{LWS_PREFIX}subgroup-exclusive-topology"
# Written by LeaderWorkerSet itself on every pod; a user's value is overwritten, and where it is not
# (group-index, group-key), the set never becomes Available or its groups are mistaken.
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

# On the objects of a service whose manifest chose among clusters: which ones it is meant for (a
# label selector), and which of their taints it tolerates (JSON). Read by people: a service is in
# the cluster of its Pulumi provider or kubectl context.
CLUSTER_SELECTOR = f"{PREFIX}cluster-selector"
CLUSTER_TOLERATIONS = f"{PREFIX}cluster-tolerations"

# Read by Pulumi's Kubernetes provider: what it does not wait for (a Deployment whose standby pods
# never become Ready would be awaited until the timeout), what it waits for instead of its own
# rules, and that a patch takes fields over which another manager owns.
PULUMI_SKIP_AWAIT = "pulumi.com/skipAwait"
PULUMI_WAIT_FOR = "pulumi.com/waitFor"
PULUMI_PATCH_FORCE = "pulumi.com/patchForce"
# Added to an object by the patch that waits for it: what it waited for, so that a change makes it
# wait again.
GENERATION = f"{PREFIX}generation"
MIN_MEMBER = f"{PREFIX}min-member"

# The labels by which providers and Karpenter tell the node pools of a cluster apart: written into
# the node selectors of services that are placed.
NODE_POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)

# What the accelerators of a node are: NVIDIA's GPU feature discovery, GKE, Karpenter on AWS. Memory
# in MiB.
ACCELERATOR_MODEL = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
ACCELERATOR_MEMORY = ("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory")
# Each node has its own; it never tells a pool.
HOSTNAME = "kubernetes.io/hostname"
# Kubernetes' own taints (not-ready, unreachable, unschedulable, pressure) come and go with a node's
# condition.
NODE_CONDITION_TAINTS = "node.kubernetes.io/"
