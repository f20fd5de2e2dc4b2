"""Every Kubernetes name that is derived from a service's name, and limits on name lengths."""

from __future__ import annotations

import re

DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
DNS_LABEL_LIMIT = 63

# Group and kind of InferencePools in routes, Roles and ReferenceGrants.
POOL_GROUP = "inference.networking.k8s.io"
POOL_KIND = "InferencePool"
REWRITE_KIND, OBJECTIVE_KIND = "InferenceModelRewrite", "InferenceObjective"

# Names of the ports that monitors select: on the decode leaders' sidecar, and on the picker.
SIDECAR_PORT = "sidecar"
EPP_METRICS_PORT = "http-metrics"

# Pods of a StatefulSet have the label `controller-revision-hash: <name>-<hash of up to 10
# characters>`. Label values have at most 63 characters: a longer name passes admission, but its
# pods are never created (kubernetes#64023).
STATEFUL_SET_LIMIT = 52

# Deployment, Service, ServiceAccount, Role and RoleBinding of the endpoint picker.
endpoint_picker = "{}-epp".format
endpoint_picker_config = "{}-epp-config".format
epp_monitor = epp_network_policy = endpoint_picker
inference_pool = "{}-pool".format
model_rewrite = "{}-model-rewrite".format
http_route = "{}-httproute".format
gateway = "{}-gateway".format
# ServiceAccount, Role and RoleBinding of the decode pods' sidecars.
sidecar = "{}-sidecar".format
# ClusterIP Service that gets the requests if no endpoint picker does.
serving_service = "{}".format
alerts = "{}-alerts".format
dashboards = "{}-dashboards".format
# A role's NetworkPolicy, PodDisruptionBudget and PodMonitor.
disruption_budget = engine_monitor = role_network_policy = "{}-{}".format
# InferenceObjective of a service level; requests name it in a header.
inference_objective = "{}-{}".format
# Volcano task of a replica: a key in `minTaskMember`, and its pods' annotation `task-spec`.
task = "{}-{}".format

# DaemonSet that pulls the image of a role's leader (0) or worker (1) before an update.
image_pull = "{}-{}-images-{}".format

# These objects are immutable, so their names end in a digest of their content: the volume claim
# that caches model files, the Job that fills it, and a ResourceClaimTemplate (of a role's claim).
model_cache = "{}-model-cache-{}".format
model_warm_up = "{}-model-{}".format
claim_template = "{}-{}-{}-{}".format

# ClusterRoleBinding that lets the endpoint picker check who reads its metrics. Names of namespaces
# and services have no colon, so no two services share a binding.
metrics_reviewer = "fusioninfer:{}:{}-epp".format
# ReferenceGrant: namespace and name of the route or Gateway that refers to another namespace. For
# an external route, the name of its backend is used instead. Namespaces contain no dot.
reference_grant = "{}.{}".format


def serving_group(service: str, index: int | None = None) -> str:
    """Return the name of a serving group's PodGroup; its LeaderWorkerSets' names start with it.

    If the service has no groups, this is the service's name.
    """
    return service if index is None else f"{service}-{index}"


pod_group = serving_group


def leader_worker_set(
    service: str, role: str, replica: int, serving_group_index: int | None
) -> str:
    """Return the name of a replica's LeaderWorkerSet, leader StatefulSet and headless Service."""
    return f"{serving_group(service, serving_group_index)}-{role}-{replica}"


def role_lws(service: str, role: str, serving_group_index: int | None = None) -> str:
    """Return the name of the LeaderWorkerSet that runs all replicas of a role (layout PerRole)."""
    return f"{serving_group(service, serving_group_index)}-{role}"


def leader_pod(lws_name: str, lws_group_index: int) -> str:
    """Return the name of a LeaderWorkerSet group's leader pod and worker StatefulSet."""
    return f"{lws_name}-{lws_group_index}"


def leader_worker_set_limit(size: int, groups: int) -> int:
    """Return the maximum length of a LeaderWorkerSet's name, for a number of groups of `size` pods.

    Groups with workers have StatefulSets named `<name>-<index>`, so the hyphen and the digits of
    the largest group index are subtracted from the limit of StatefulSets.
    """
    if size <= 1:
        return STATEFUL_SET_LIMIT
    return STATEFUL_SET_LIMIT - 1 - len(str(max(groups - 1, 0)))
