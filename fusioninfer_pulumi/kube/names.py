"""Every Kubernetes name that is derived from a service's name, and the limits of their length."""

from __future__ import annotations

import re

DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
DNS_LABEL_LIMIT = 63

# Group and kind of InferencePools in routes, Roles and ReferenceGrants.
POOL_GROUP = "inference.networking.k8s.io"
POOL_KIND = "InferencePool"
REWRITE_KIND = "InferenceModelRewrite"

# Ports that monitors select by name: the sidecar of decode leaders, and the picker's metrics.
SIDECAR_PORT = "sidecar"
EPP_METRICS_PORT = "http-metrics"

# Pods of a StatefulSet have the label `controller-revision-hash: <name>-<hash of up to 10
# characters>`. Label values have at most 63 characters: a longer name passes admission, but its
# pods are never created (kubernetes#64023).
STATEFUL_SET_LIMIT = 52


def serving_group(service: str, index: int | None) -> str:
    """Returns the prefix of one serving group's names: the service's name without groups."""
    return service if index is None else f"{service}-{index}"


def leader_worker_set(
    service: str, role: str, replica: int, serving_group_index: int | None = None
) -> str:
    """Name of one replica's LeaderWorkerSet, and of its leader StatefulSet and headless Service."""
    return f"{serving_group(service, serving_group_index)}-{role}-{replica}"


def role_lws(service: str, role: str, serving_group_index: int | None = None) -> str:
    """Name of the one LeaderWorkerSet of a role, of its StatefulSet and headless Service."""
    return f"{serving_group(service, serving_group_index)}-{role}"


def task(role: str, replica: int) -> str:
    """Volcano task of one replica: the key in `minTaskMember` and the pods' task-spec."""
    return f"{role}-{replica}"


def leader_pod(lws_name: str, group: int = 0) -> str:
    """Name of a group's leader pod, which is also the name of its worker StatefulSet."""
    return f"{lws_name}-{group}"


def pod_group(service: str, serving_group_index: int | None = None) -> str:
    """Name of the PodGroup of a service, or of one of its serving groups."""
    return serving_group(service, serving_group_index)


def serving_service(service: str) -> str:
    """Name of the ClusterIP Service in front of a service that has no router."""
    return service


def endpoint_picker(service: str) -> str:
    """Name of the endpoint picker's Deployment, Service, ServiceAccount, Role and RoleBinding."""
    return f"{service}-epp"


def endpoint_picker_config(service: str) -> str:
    """Name of the endpoint picker's ConfigMap."""
    return f"{service}-epp-config"


def inference_pool(service: str) -> str:
    """Name of the service's InferencePool."""
    return f"{service}-pool"


def model_rewrite(service: str) -> str:
    """Name of the service's InferenceModelRewrite."""
    return f"{service}-model-rewrite"


def http_route(service: str) -> str:
    """Name of the service's HTTPRoute."""
    return f"{service}-httproute"


def gateway(service: str) -> str:
    """Name of a managed Gateway."""
    return f"{service}-gateway"


def sidecar(service: str) -> str:
    """Name of the ServiceAccount, Role and RoleBinding of the decode pods' sidecars."""
    return f"{service}-sidecar"


def epp_network_policy(service: str) -> str:
    """Name of the NetworkPolicy of the endpoint picker's pods."""
    return endpoint_picker(service)


def role_network_policy(service: str, role: str) -> str:
    """Name of the NetworkPolicy of one role's pods."""
    return f"{service}-{role}"


def disruption_budget(service: str, role: str) -> str:
    """Name of the PodDisruptionBudget of one role's pods."""
    return f"{service}-{role}"


def engine_monitor(service: str, role: str) -> str:
    """Name of the PodMonitor of one role's leaders."""
    return f"{service}-{role}"


def epp_monitor(service: str) -> str:
    """Name of the endpoint picker's ServiceMonitor."""
    return endpoint_picker(service)


def alerts(service: str) -> str:
    """Name of the PrometheusRule with the alerts of a service."""
    return f"{service}-alerts"


def dashboards(service: str) -> str:
    """Name of the ConfigMap with the Grafana dashboards of a service."""
    return f"{service}-dashboards"


def metrics_reviewer(namespace: str, service: str) -> str:
    """Name of the ClusterRoleBinding that lets the endpoint picker check who reads its metrics.

    Colons, which RBAC allows and other names do not, keep namespace and service apart.
    """
    return f"fusioninfer:{namespace}:{endpoint_picker(service)}"


def reference_grant(namespace: str, name: str) -> str:
    """Name of a ReferenceGrant for references from a namespace.

    `name` is that of the route or Gateway that refers, or of the pool that is referred to. A dot,
    which no part can hold, separates them.
    """
    return f"{namespace}.{name}"


def model_cache(service: str, digest: str) -> str:
    """Name of the PersistentVolumeClaim that caches the model's files.

    Class and access modes of a claim are immutable: other values get another claim.
    """
    return f"{service}-model-cache-{digest}"


def model_warm_up(service: str, digest: str) -> str:
    """Name of the Job that fills the cache; Jobs are immutable: other content, another Job."""
    return f"{service}-model-{digest}"


def claim_template(service: str, role: str, claim: str, digest: str) -> str:
    """Name of a role's ResourceClaimTemplate.

    Its spec is immutable: another spec gets another template.
    """
    return f"{service}-{role}-{claim}-{digest}"


def leader_worker_set_limit(size: int, groups: int = 1) -> int:
    """Returns the longest LeaderWorkerSet name whose pods can be created.

    52 characters for groups of one pod. Otherwise the worker StatefulSet is named `<name>-<group>`,
    so two less for a one-digit group index.
    """
    if size <= 1:
        return STATEFUL_SET_LIMIT
    return STATEFUL_SET_LIMIT - 1 - len(str(max(groups - 1, 0)))
