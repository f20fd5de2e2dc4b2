"""The endpoint picker: plan, ConfigMap, Deployment and Service."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi import pickers
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.api.router import PICKER_CONTAINER, EndpointPickerArgs, MetricsMode
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.findings import Finding, Location, error, errors, info, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.containers import overlaid
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pickers import PickerFamily, PickerFlags, PickerRequest
from fusioninfer_pulumi.pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.pickers.intent import (
    PickerIntent,
    event_port,
    group_affinity,
    group_pairing_findings,
    picker_image,
)
from fusioninfer_pulumi.pods.checks import credential_findings
from fusioninfer_pulumi.pods.tracing import tracing_env
from fusioninfer_pulumi.pods.validation.template import Owner, template_findings
from fusioninfer_pulumi.pods.validation.written import generated_label, written_location
from fusioninfer_pulumi.topology.role import RolePlan

#: Where the container finds its certificate.
CERTIFICATE_PATH = "/certificate"
#: Volumes of its pod.
CONFIG_VOLUME, CERTIFICATE_VOLUME = "plugins-config-volume", "certificate"
CONFIG_KEY = "config.yaml"
#: The container's own namespace, expanded by Kubernetes: for namespaces that are Outputs.
OWN_NAMESPACE = "$(NAMESPACE)"

#: As long as upstream's charts give an endpoint picker to finish the streams that pass through it.
_GRACE_SECONDS = 130
#: Its indexes grow with the traffic, so there is no limit that would end the pod.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


@dataclass(frozen=True)
class PickerPlan:
    """The endpoint picker.

    Attributes:
        name: Name of its Deployment, Service, ServiceAccount, Role and RoleBinding.
        config_name: Name of its ConfigMap.
        image: Its image; may be an Output.
        family: What kind of endpoint picker that is.
        config: Text of its configuration.
        arguments: Its command line.
        words: Its strategy, in words.
        args: The user's `endpointPicker`.
        env: Variables that it gets beside its own.
    """

    name: str
    config_name: str
    image: Any
    family: PickerFamily
    config: str
    arguments: tuple[str, ...]
    words: str
    args: EndpointPickerArgs
    env: tuple[Mapping[str, str], ...] = ()

    @property
    def replicas(self) -> int:
        """Its pods."""
        return self.args.replicas

    @property
    def metrics(self) -> MetricsMode:
        """Who may read its metrics."""
        return self.args.metrics

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that select its pods and no others.

        No serving pod carries them, and no selector of serving pods matches its pods: see
        `labels.APP`.
        """
        return {labels.APP: self.name, labels.COMPONENT_TYPE: ComponentType.ROUTER.value}


def picker_plan(
    service: str,
    namespace: Any,
    at: Location,
    args: RoleArgs,
    intent: PickerIntent,
    served: Sequence[RolePlan],
    groups: int | None,
    tracing: TracingArgs | None,
) -> tuple[PickerPlan | None, list[Finding]]:
    """Plans the endpoint picker of a router role, with findings.

    `served` are the roles whose pods it chooses from. The plan is None when the image's family is
    not known.
    """
    picker_args = args.endpoint_picker or EndpointPickerArgs()
    image, family, findings = picker_image((*at, "endpointPicker"), picker_args, intent)
    if family is None:
        return None, findings
    affinity = group_affinity(service, picker_args, intent, groups)
    config, words, found = _config(at, args, picker_args, intent, family, image, served, affinity)
    findings += found
    findings += group_pairing_findings(at, args, intent, groups)
    findings += [
        each.under(*at, "endpointPicker", "args")
        for each in pickers.check_args(picker_args.args or (), family)
    ]
    findings += _advice(at, args, picker_args, family, namespace)
    template = picker_args.template or {}
    field = (*at, "endpointPicker", "template")
    findings += credential_findings(field, template)
    flags = PickerFlags(
        pool=names.inference_pool(service),
        namespace=OWN_NAMESPACE if is_output(namespace) else namespace,
        replicas=picker_args.replicas,
        verbosity=picker_args.log_verbosity,
        metrics_auth=picker_args.metrics is not MetricsMode.UNAUTHENTICATED,
        secure_serving=picker_args.tls.enabled,
        cert_path=CERTIFICATE_PATH if picker_args.tls.secret_name else None,
        experimental=affinity is not None,
        tracing=tracing is not None and tracing.picker,
    )
    plan = PickerPlan(
        name=names.endpoint_picker(service),
        config_name=names.endpoint_picker_config(service),
        image=image,
        family=family,
        config=config,
        arguments=(*pickers.picker_flags(family, flags), *(picker_args.args or ())),
        words=words,
        args=picker_args,
        env=tracing_env(tracing, names.endpoint_picker(service))
        if tracing is not None and tracing.picker
        else (),
    )
    findings += _pod_findings((*at, "endpointPicker"), plan)
    return plan, findings


def _pod_findings(at: Location, picker: PickerPlan) -> Iterator[Finding]:
    """Checks the finished pod template; findings stand at what the user wrote of it."""
    written = picker.args.template or {}
    finished = overlaid(_pod_template(picker), written)
    for each in template_findings(finished, Owner.DEPLOYMENT):
        if generated_label(written, each.location):
            continue
        location = written_location(finished, written, each.location)
        if len(location) < len(each.location) and "resources" in each.location:
            yield each.at(*at, *each.location[each.location.index("resources") :])
        else:
            yield each.at(*at, "template", *location)


def _config(
    at: Location,
    args: RoleArgs,
    picker_args: EndpointPickerArgs,
    intent: PickerIntent,
    family: PickerFamily,
    image: Any,
    served: Sequence[RolePlan],
    affinity: pickers.GroupAffinity | None,
) -> tuple[str, str, list[Finding]]:
    """The text of the configuration, its strategy in words, and findings."""
    if intent.strategy is None:
        text = args.endpoint_picker_config or ""
        own = is_output(image) or pickers.family_of(image) is None
        found = [
            each.under(*at, "endpointPickerConfig")
            for each in pickers.check_config(text, family, own_image=own)
        ]
        return text, "as its endpointPickerConfig says", found
    request = PickerRequest(
        strategy=intent.strategy,
        scorers=args.scorers,
        block_size=_block_size(served),
        threshold=picker_args.threshold or 0,
        groups=affinity,
    )
    # Which roles there are is checked with the pool.
    found = [each.under(*at) for each in pickers.check_strategy(family, request)]
    if picker_args.threshold is not None and not intent.pairs:
        found.append(
            error(
                "threshold-without-disaggregation",
                (*at, "endpointPicker", "threshold"),
                f"is the threshold of {Strategy.PD_DISAGGREGATION.value}, and the strategy is "
                f"{intent.strategy.value}; remove it",
            )
        )
    if errors(found):
        return "", "", found
    text = pickers.picker_config_text(pickers.picker_config(family, request))
    return text, pickers.strategy_in_words(request), found


def _block_size(served: Sequence[RolePlan]) -> int | None:
    """Tokens in a block of the engines' KV cache, None where it is not known or differs."""
    sizes = {role.serving.command.block_size for role in served}
    return sizes.pop() if len(sizes) == 1 else None


def _advice(
    at: Location,
    args: RoleArgs,
    picker_args: EndpointPickerArgs,
    family: PickerFamily,
    namespace: Any,
) -> Iterator[Finding]:
    metrics = (*at, "endpointPicker", "metrics")
    if picker_args.metrics is MetricsMode.OFF:
        yield info(
            "picker-metrics-off",
            metrics,
            "Off: nobody reads the picker's metrics; Authenticated lets in who may get /metrics, "
            "and binds the picker to the ClusterRole system:auth-delegator",
        )
    elif picker_args.metrics is MetricsMode.UNAUTHENTICATED:
        yield warning(
            "picker-metrics-unauthenticated",
            metrics,
            "everybody who reaches the picker reads its metrics; Authenticated asks first",
        )
    elif is_output(namespace):
        yield error(
            "namespace-output-in-name",
            metrics,
            "Authenticated needs a cluster-wide name, made of the namespace: that must be a plain "
            "value, got a pulumi Output",
        )
    if family.needs_inference_objective_crd:
        yield info(
            "inference-objective-required",
            (*at, "endpointPicker", "image"),
            f"{family.name} starts only where the cluster has the kind InferenceObjective "
            "(inference.networking.x-k8s.io), which releases up to v1.5.0 install",
        )
    if picker_args.replicas > 1:
        yield info(
            "picker-standby-not-ready",
            (*at, "endpointPicker", "replicas"),
            "one pod leads, the others stand by and are never ready: pulumi up does not wait for "
            "the Deployment",
        )
    if args.strategy is None and args.endpoint_picker_config is None:
        yield info(
            "strategy-defaulted",
            (*at, "strategy"),
            "is not given: chosen for the roles of the service, see the plan",
        )


def config_map(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(meta, picker.config_name),
        "data": {CONFIG_KEY: picker.config},
    }


def picker_deployment(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the Deployment.

    Two endpoint pickers at a time would each know half of what they balance by, hence `Recreate`.
    Of several replicas only the leader becomes Ready, so Pulumi does not wait for the others.
    """
    built = metadata(meta, picker.name)
    if picker.replicas > 1:
        built["annotations"] = {**built.get("annotations", {}), labels.PULUMI_SKIP_AWAIT: "true"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": built,
        "spec": {
            "replicas": picker.replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": picker.pod_labels},
            "template": overlaid(_pod_template(picker), picker.args.template or {}),
        },
    }


def _pod_template(picker: PickerPlan) -> Manifest:
    secret = picker.args.tls.secret_name
    volumes: list[Manifest] = [{"name": CONFIG_VOLUME, "configMap": {"name": picker.config_name}}]
    if secret is not None:
        volumes.append({"name": CERTIFICATE_VOLUME, "secret": {"secretName": secret}})
    # The endpoint picker reads its configuration once, when it starts.
    checksum = hashlib.sha256(picker.config.encode()).hexdigest()
    return {
        "metadata": {
            "labels": picker.pod_labels,
            "annotations": {labels.CONFIG_CHECKSUM: checksum},
        },
        "spec": {
            "serviceAccountName": picker.name,
            "automountServiceAccountToken": True,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(picker)],
            "volumes": volumes,
        },
    }


def _container(picker: PickerPlan) -> Manifest:
    ports: list[Manifest] = [
        {"name": "grpc", "containerPort": GRPC_PORT},
        {"name": "grpc-health", "containerPort": HEALTH_PORT},
    ]
    if picker.metrics is not MetricsMode.OFF:
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
    mounts = [{"name": CONFIG_VOLUME, "mountPath": "/config", "readOnly": True}]
    if picker.args.tls.secret_name is not None:
        mounts.append({"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_PATH, "readOnly": True})
    return {
        "name": PICKER_CONTAINER,
        "image": picker.image,
        "args": list(picker.arguments),
        "ports": ports,
        # Of all service names only these two are known with and without leader election.
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
            _field_ref("NAMESPACE", "metadata.namespace"),
            _field_ref("POD_NAME", "metadata.name"),
            *(dict(each) for each in picker.env),
        ],
        "resources": picker.args.resources or {"requests": _REQUESTS},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }


def _field_ref(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


_EVENTS = "kv-events"


def picker_service(meta: ServiceMeta, picker: PickerPlan, protocol: str) -> Manifest:
    """Builds the Service; it has a port of metrics where anyone may read them, and of KV events.

    `protocol` is the `appProtocol` that the gateway asks for.
    """
    ports = [
        {
            "name": "grpc-ext-proc",
            "port": GRPC_PORT,
            "protocol": "TCP",
            "appProtocol": protocol,
        },
        {"name": "grpc-health", "port": HEALTH_PORT, "protocol": "TCP"},
    ]
    if picker.metrics is not MetricsMode.OFF:
        ports.append({"name": names.PICKER_METRICS_PORT, "port": METRICS_PORT, "protocol": "TCP"})
    # Engines that publish their KV events to a picker reach it by its Service.
    events = event_port(picker.config)
    if events is not None and events not in [each["port"] for each in ports]:
        ports.append({"name": _EVENTS, "port": events, "protocol": "TCP"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(meta, picker.name),
        "spec": {"type": "ClusterIP", "selector": picker.pod_labels, "ports": ports},
    }
