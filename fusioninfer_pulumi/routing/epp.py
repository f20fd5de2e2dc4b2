"""Plans the endpoint picker, and builds its ConfigMap, Deployment, Service and RBAC objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import PICKER_CONTAINER, EndpointPickerArgs, MetricsMode
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.endpoint_pickers.picker_choice import (
    EppChoice,
    choose_pair_affinity,
    find_picker_events_port,
)
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    CERTIFICATE_PATH,
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    GRPC_PORT,
    HEALTH_PORT,
    LEADER_ELECTION,
    METRICS_PORT,
    EppSettings,
    PairAffinity,
    build_epp_config,
    build_epp_flags,
    build_pairing_plugins,
    describe_strategy,
    dump_epp_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import LLM_D_API, EppFamily
from fusioninfer_pulumi.engines.metric_names import LoadMetrics
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.containers import build_field_variable, build_security_context, overlay
from fusioninfer_pulumi.kube.object_metadata import (
    READ,
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
    build_role_and_binding,
    build_role_binding,
    build_service_account,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.pods.env_variables import build_tracing_env
from fusioninfer_pulumi.topology.role_plan import RolePlan

#: Names of the volumes of the endpoint picker's pod.
CONFIG_VOLUME, CERTIFICATE_VOLUME = "plugins-config-volume", "certificate"
#: The container's own namespace, expanded by the kubelet; used if the namespace is an Output.
OWN_NAMESPACE = "$(NAMESPACE)"

#: `terminationGracePeriodSeconds` of the picker's pods, as in upstream's charts.
_GRACE_SECONDS = 130
#: At SIGTERM a picker rejects new requests, although gateways still send them, and closes open
#: streams after 30 s (controller-runtime). So a preStop sleep delays SIGTERM, and the picker serves
#: until then. The hook is the sleep action of Kubernetes 1.30, because the image has no shell.
_PAUSE_SECONDS = 60
#: The old endpoint picker serves until the new one is Ready, because gateways that fail closed
#: reject all requests without a Ready picker. The price: while both serve, each sees half of the
#: load, and the new picker has an empty prefix index.
_ROLLING_UPDATE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
#: With leader election only the leader becomes Ready. In a rolling update the new pods would wait
#: for the old leader to exit.
_RECREATE = {"type": "Recreate"}
#: There is no memory limit, because the picker's indexes grow with the traffic.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


class EppPlan(NamedTuple):
    """The endpoint picker.

    Attributes:
        name: Name of its Deployment, Service, ServiceAccount, Role and RoleBinding.
        image: The picker's image; may be an Output.
        settings: Inputs of the generated configuration, or None for a user's configuration.
        config: The EndpointPickerConfig as YAML.
        summary: The strategy, in one sentence.
        env: Additional environment variables of the container.
    """

    name: str
    config_name: str
    image: Any
    family: EppFamily
    settings: EppSettings | None
    config: str
    flags: tuple[str, ...]
    summary: str
    args: EndpointPickerArgs
    env: tuple[Mapping[str, str], ...] = ()

    @property
    def prefers_pairs(self) -> bool:
        """Whether the picker prefers prefill pods whose KV cache the decode pod accepts.

        These pods have equal pair revisions.
        """
        affinity = PairAffinity(labels.PAIR_REVISION)
        return self.settings is not None and self.settings.affinity == affinity

    @property
    def delays_sigterm(self) -> bool:
        """Whether the picker keeps serving for a while after its pod is deleted.

        A preStop hook delays SIGTERM. There is no such hook if the user sets `lifecycle` or a short
        grace period. With leader election the hook would do harm, because no other replica becomes
        the leader before this one exits.
        """
        user_spec: Mapping[str, Any] = (self.args.template or {}).get("spec") or {}
        grace = user_spec.get("terminationGracePeriodSeconds", _GRACE_SECONDS)
        has_lifecycle = any(
            container.get("name") == PICKER_CONTAINER and "lifecycle" in container
            for container in user_spec.get("containers") or ()
        )
        is_long_enough = isinstance(grace, int) and grace > _PAUSE_SECONDS
        return not self.elects_leader and is_long_enough and not has_lifecycle

    @property
    def elects_leader(self) -> bool:
        """Whether only one of several replicas serves, and becomes Ready."""
        return LEADER_ELECTION in self.flags

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that select its pods and no others; see `labels.APP`."""
        return {labels.APP: self.name, labels.COMPONENT_TYPE: ComponentType.ROUTER.value}


def find_load_metrics(roles: Sequence[RolePlan]) -> LoadMetrics | None:
    """Return the names of the engines' load metrics, or None if they are unknown or differ."""
    engines = [role.pods.command.engine for role in roles]
    metrics = {engine.telemetry.load_metrics if engine else None for engine in engines}
    return metrics.pop() if len(metrics) == 1 else None


def plan_epp(
    service: str,
    spec: InferenceServiceArgs,
    router: RoleArgs,
    epp_choice: EppChoice,
    backend_roles: Sequence[RolePlan],
) -> EppPlan | None:
    """Plan the endpoint picker of a router role, or return None if its family is unknown.

    `backend_roles` are the roles whose pods the picker chooses from.
    """
    epp_args = router.endpoint_picker or EndpointPickerArgs()
    family = epp_choice.family
    if family is None:
        return None
    name = object_names.endpoint_picker(service)
    tracing = spec.tracing if spec.tracing is not None and spec.tracing.picker else None
    has_pair_revision = any(role.pods.pair_revision for role in backend_roles)
    affinity = choose_pair_affinity(
        service, epp_args, epp_choice, spec.groups, has_pair_revision=has_pair_revision
    )
    note = ""
    can_pair = all(family.has_plugin(item["type"]) for item in build_pairing_plugins(affinity))
    # In a service with serving groups, a check rejects a picker that cannot pair their pods.
    if not can_pair and spec.groups is None:
        affinity = None
        note = f"; {family.name} cannot prefer prefill pods with the decode pod's pair revision"
    metrics = find_load_metrics(backend_roles)
    settings = None
    config = router.endpoint_picker_config or ""
    summary = "as configured in endpointPickerConfig"
    if epp_choice.strategy is not None:
        block_sizes = {role.pods.command.block_size for role in backend_roles}
        settings = EppSettings(
            strategy=epp_choice.strategy,
            scorers=router.scorers,
            block_size=block_sizes.pop() if len(block_sizes) == 1 else None,
            threshold=epp_args.threshold or 0,
            affinity=affinity,
            flow_control=epp_choice.flow_control,
            engine_metrics=metrics,
            service_levels=epp_args.service_levels,
            session=epp_args.session,
        )
        config = dump_epp_config(build_epp_config(family, settings))
        summary = describe_strategy(settings) + note
    leader_election = epp_args.leader_election
    if leader_election is None:
        # Replicas of the endpoint picker do not share their state. Flow control needs one queue for
        # all requests, and a user's configuration (`settings` is None) may enable it. Without flow
        # control all replicas serve: each routes most requests to the pod with their prefix or
        # session (e2e/strategies/test_balance.py).
        leader_election = settings is None or settings.flow_control
    flags = build_epp_flags(
        family,
        epp_args,
        object_names.inference_pool(service),
        OWN_NAMESPACE if is_output(spec.namespace) else spec.namespace,
        metrics,
        elects_leader=leader_election and epp_args.replicas > 1,
        experimental=affinity is not None or (settings is not None and settings.uses_sessions),
        tracing=tracing is not None,
    )
    return EppPlan(
        name=name,
        config_name=object_names.endpoint_picker_config(service),
        image=epp_choice.image,
        family=family,
        settings=settings,
        config=config,
        flags=(*flags, *(epp_args.args or ())),
        summary=summary,
        args=epp_args,
        env=() if tracing is None else build_tracing_env(tracing, name),
    )


def build_config_map(meta: ServiceMeta, epp: EppPlan) -> Manifest:
    """Build the ConfigMap."""
    object_meta = build_metadata(meta, epp.config_name)
    return build_object("v1", "ConfigMap", object_meta, data={CONFIG_KEY: epp.config})


def build_epp_deployment(meta: ServiceMeta, epp: EppPlan) -> Manifest:
    """Build the Deployment.

    With leader election only the leader becomes Ready, so Pulumi must not await the Deployment.
    """
    if epp.elects_leader:
        meta = replace(meta, annotations={**meta.annotations, labels.PULUMI_SKIP_AWAIT: "true"})
    spec = {
        "replicas": epp.args.replicas,
        "strategy": _RECREATE if epp.elects_leader else _ROLLING_UPDATE,
        "selector": {"matchLabels": epp.pod_labels},
        "template": overlay(build_pod_template(epp), epp.args.template or {}),
    }
    return build_object("apps/v1", "Deployment", build_metadata(meta, epp.name), spec=spec)


def build_pod_template(epp: EppPlan) -> Manifest:
    """Return the generated pod template, before the user's is merged into it."""
    secret = epp.args.tls.secret_name
    volumes: list[Manifest] = [{"name": CONFIG_VOLUME, "configMap": {"name": epp.config_name}}]
    if secret is not None:
        volumes.append({"name": CERTIFICATE_VOLUME, "secret": {"secretName": secret}})
    # The endpoint picker reads its configuration only at start, so a new checksum restarts it.
    checksum = hashlib.sha256(epp.config.encode()).hexdigest()
    return {
        "metadata": {"labels": epp.pod_labels, "annotations": {labels.CONFIG_CHECKSUM: checksum}},
        "spec": {
            "serviceAccountName": epp.name,
            "automountServiceAccountToken": True,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [_build_container(epp)],
            "volumes": volumes,
        },
    }


def _build_container(epp: EppPlan) -> Manifest:
    ports: list[Manifest] = [
        {"name": "grpc", "containerPort": GRPC_PORT},
        {"name": "grpc-health", "containerPort": HEALTH_PORT},
    ]
    if epp.args.metrics is not MetricsMode.OFF:
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
    mounts = [{"name": CONFIG_VOLUME, "mountPath": CONFIG_DIRECTORY, "readOnly": True}]
    if epp.args.tls.secret_name is not None:
        mounts.append({"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_PATH, "readOnly": True})
    pause = {"preStop": {"sleep": {"seconds": _PAUSE_SECONDS}}}
    return {
        "name": PICKER_CONTAINER,
        "image": epp.image,
        "args": list(epp.flags),
        "ports": ports,
        **({"lifecycle": pause} if epp.delays_sigterm else {}),
        # A picker reports readiness before it has created its certificate and started listening.
        "startupProbe": {
            "tcpSocket": {"port": GRPC_PORT},
            "periodSeconds": 1,
            "failureThreshold": 120,
        },
        # Only these gRPC health services work both with and without leader election.
        "livenessProbe": {
            "grpc": {"port": HEALTH_PORT, "service": "liveness"},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "readinessProbe": {
            "grpc": {"port": HEALTH_PORT, "service": "readiness"},
            "periodSeconds": 2,
        },
        "env": [
            build_field_variable("NAMESPACE", "metadata.namespace"),
            build_field_variable("POD_NAME", "metadata.name"),
            *(dict(variable) for variable in epp.env),
        ],
        "resources": epp.args.resources or {"requests": _REQUESTS},
        "securityContext": build_security_context(readOnlyRootFilesystem=True),
        "volumeMounts": mounts,
    }


def build_epp_service(meta: ServiceMeta, epp: EppPlan, protocol: str) -> Manifest:
    """Build the Service, with ports for metrics and KV events if the picker has them.

    `protocol` is the `appProtocol` that the gateway requires.
    """
    ports = [
        {**_build_port("grpc-ext-proc", GRPC_PORT), "appProtocol": protocol},
        _build_port("grpc-health", HEALTH_PORT),
    ]
    if epp.args.metrics is not MetricsMode.OFF:
        ports.append(_build_port(object_names.EPP_METRICS_PORT, METRICS_PORT))
    # Engines that publish their KV events to a picker reach it through its Service.
    events_port = find_picker_events_port(epp.config)
    if events_port is not None and events_port not in [port["port"] for port in ports]:
        ports.append(_build_port("kv-events", events_port))
    spec = {"type": "ClusterIP", "selector": epp.pod_labels, "ports": ports}
    return build_object("v1", "Service", build_metadata(meta, epp.name), spec=spec)


def _build_port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "protocol": "TCP"}


def build_epp_access(meta: ServiceMeta, epp: EppPlan) -> Iterator[Manifest]:
    """Build the ServiceAccount, Role and RoleBinding, and a ClusterRoleBinding for metrics.

    The Role has read access to pods, pools, objectives and rewrites and, with leader election,
    write access to Leases and Events. The ClusterRoleBinding lets the picker authenticate readers
    of its metrics. Its role, `system:auth-delegator`, comes with Kubernetes and only allows
    creating TokenReviews and SubjectAccessReviews.
    """
    groups = ["inference.networking.x-k8s.io"]
    if LLM_D_API in epp.family.api_versions:
        groups.append("llm-d.ai")
    objectives = ["inferenceobjectives", "inferencemodelrewrites"]
    rules = [
        ("", ["pods"], READ),
        (object_names.POOL_GROUP, ["inferencepools"], READ),
        *((group, objectives, READ) for group in groups),
    ]
    if epp.elects_leader:
        verbs = (*READ, "create", "update", "patch", "delete")
        rules.append(("coordination.k8s.io", ["leases"], verbs))
        rules.append(("", ["events"], ("create", "patch")))
    yield build_service_account(meta, epp.name)
    yield from build_role_and_binding(meta, epp.name, rules, [epp.name])
    if epp.args.metrics is MetricsMode.AUTHENTICATED:
        name = object_names.metrics_reviewer(meta.namespace, meta.service)
        object_meta = build_metadata(meta, name)
        del object_meta["namespace"]
        delegator = ("ClusterRole", "system:auth-delegator")
        yield build_role_binding(meta, object_meta, delegator, [epp.name])
