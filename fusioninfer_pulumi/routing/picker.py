"""The endpoint picker: plan, ConfigMap, Deployment and Service."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi import pickers
from fusioninfer_pulumi.api.role import RoleArgs, Strategy
from fusioninfer_pulumi.api.router import EndpointPickerArgs, MetricsMode
from fusioninfer_pulumi.api.router_rules import PICKER_CONTAINER
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.findings import Finding, error, errors, info, join, parse_path, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.merge import overlaid
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pickers import PickerFamily, PickerFlags, PickerRequest
from fusioninfer_pulumi.pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.pickers.role_intent import (
    Intent,
    event_port,
    group_pairing,
    group_pairing_findings,
    picker_image,
)
from fusioninfer_pulumi.pods.checks import credential_findings, pod_volume_findings
from fusioninfer_pulumi.pods.tracing import tracing_env
from fusioninfer_pulumi.routing.common import Manifest, picker_labels, router_metadata
from fusioninfer_pulumi.routing.records import PickerPlan, RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan

#: Where the picker's container finds its certificate.
CERTIFICATE_PATH = "/certificate"
#: Volumes of its pod.
CONFIG_VOLUME, CERTIFICATE_VOLUME = "plugins-config-volume", "certificate"
#: The container's own namespace, expanded by Kubernetes: for namespaces that are Outputs.
OWN_NAMESPACE = "$(NAMESPACE)"


def picker_plan(
    service: str,
    namespace: Any,
    position: int,
    args: RoleArgs,
    intent: Intent,
    served: Sequence[RolePlan],
    groups: int | None = None,
    tracing: TracingArgs | None = None,
) -> tuple[PickerPlan | None, list[Finding]]:
    """Plans the picker.

    Args:
        service: Name of the service.
        namespace: Its namespace; may be an Output.
        position: Index of the router in the spec.
        args: The router role.
        intent: What the picker is for.
        served: Roles whose pods it chooses from.
        groups: Serving groups of the service, None without.
        tracing: The service's traces, None without.

    Returns:
        The plan, None when nothing is known of the image, and what is to be said.
    """
    at = join("roles", position)
    given = args.endpoint_picker or EndpointPickerArgs()
    image, family, findings = picker_image(f"{at}.endpointPicker", given, intent)
    if family is None:
        return None, findings
    pairing = group_pairing(service, given, intent, groups)
    config, words, found = _config(at, args, given, intent, family, image, served, pairing)
    findings += found
    findings += group_pairing_findings(at, args, intent, groups)
    findings += [
        each.under(*parse_path(at), "endpointPicker", "args")
        for each in pickers.check_args(given.args or (), family)
    ]
    findings += _advice(at, args, given, family, namespace)
    findings += credential_findings(f"{at}.endpointPicker.template", given.template or {})
    ours = [CONFIG_VOLUME, *([CERTIFICATE_VOLUME] if given.tls.secret_name else ())]
    findings += pod_volume_findings(
        f"{at}.endpointPicker.template.spec", (given.template or {}).get("spec") or {}, ours
    )
    flags = PickerFlags(
        pool=names.inference_pool(service),
        namespace=OWN_NAMESPACE if is_output(namespace) else namespace,
        replicas=given.replicas,
        verbosity=given.log_verbosity,
        metrics_auth=given.metrics is not MetricsMode.UNAUTHENTICATED,
        secure_serving=given.tls.enabled,
        cert_path=CERTIFICATE_PATH if given.tls.secret_name else None,
        experimental=pairing is not None,
        tracing=tracing is not None and tracing.picker,
    )
    plan = PickerPlan(
        name=names.endpoint_picker(service),
        config_name=names.endpoint_picker_config(service),
        image=image,
        family=family,
        config=config,
        arguments=(*pickers.picker_flags(family, flags), *(given.args or ())),
        words=words,
        args=given,
        env=tracing_env(tracing, names.endpoint_picker(service))
        if tracing is not None and tracing.picker
        else (),
    )
    return plan, findings


def _config(
    at: str,
    args: RoleArgs,
    given: EndpointPickerArgs,
    intent: Intent,
    family: PickerFamily,
    image: Any,
    served: Sequence[RolePlan],
    pairing: pickers.GroupPairing | None,
) -> tuple[str, str, list[Finding]]:
    """Text of the configuration, what it means, and what speaks against it."""
    if intent.strategy is None:
        text = args.endpoint_picker_config or ""
        own = is_output(image) or pickers.family_of(image) is None
        found = [
            each.under(*parse_path(at), "endpointPickerConfig")
            for each in pickers.check_config(text, family, own_image=own)
        ]
        return text, "as its endpointPickerConfig says", found
    request = PickerRequest(
        strategy=intent.strategy,
        scorers=args.scorers,
        block_size=_block_size(served),
        threshold=given.threshold or 0,
        groups=pairing,
    )
    # Which roles there are is checked with the pool.
    found = [each.under(*parse_path(at)) for each in pickers.check_strategy(family, request)]
    if given.threshold is not None and not intent.pairs:
        found.append(
            error(
                f"{at}.endpointPicker.threshold",
                f"is the threshold of {Strategy.PD_DISAGGREGATION.value}, and the strategy is "
                f"{intent.strategy.value}; remove it",
            )
        )
    if errors(found):
        return "", "", found
    text = pickers.picker_config_text(pickers.picker_config(family, request))
    return text, pickers.strategy_in_words(request), found


def _block_size(served: Sequence[RolePlan]) -> int | None:
    """Tokens in a block of the engines' KV cache, None where it is not known or not one."""
    sizes = {role.serving.command.block_size for role in served}
    return sizes.pop() if len(sizes) == 1 else None


def _advice(
    at: str, args: RoleArgs, given: EndpointPickerArgs, family: PickerFamily, namespace: Any
) -> Iterator[Finding]:
    metrics = f"{at}.endpointPicker.metrics"
    if given.metrics is MetricsMode.OFF:
        yield info(
            metrics,
            "Off: nobody reads the picker's metrics; Authenticated lets in who may get /metrics, "
            "and binds the picker to the ClusterRole system:auth-delegator",
        )
    elif given.metrics is MetricsMode.UNAUTHENTICATED:
        yield warning(
            metrics, "everybody who reaches the picker reads its metrics; Authenticated asks first"
        )
    elif is_output(namespace):
        yield error(
            metrics,
            "Authenticated needs a cluster-wide name, made of the namespace: that must be a plain "
            "value, got a pulumi Output",
        )
    if family.needs_inference_objective_crd:
        yield info(
            f"{at}.endpointPicker.image",
            f"{family.name} starts only where the cluster has the kind InferenceObjective "
            "(inference.networking.x-k8s.io), which releases up to v1.5.0 install",
        )
    if given.replicas > 1:
        yield info(
            f"{at}.endpointPicker.replicas",
            "one pod leads, the others stand by and are never ready: pulumi up does not wait for "
            "the Deployment",
        )
    if args.strategy is None and args.endpoint_picker_config is None:
        yield info(
            f"{at}.strategy", "is not given: chosen for the roles of the service, see the plan"
        )


KEY = "config.yaml"


def config_map(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": router_metadata(plan, router, router.picker.config_name),
        "data": {KEY: router.picker.config},
    }


def checksum(router: RouterPlan) -> str:
    """Changes with the configuration, which the picker reads once, when it starts."""
    return hashlib.sha256(router.picker.config.encode()).hexdigest()


#: As long as upstream's charts give a picker to finish the streams that it stands in.
_GRACE_SECONDS = 130

# Its indexes grow with the traffic, so there is no limit that would end the pod.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


def picker_deployment(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the Deployment.

    Two pickers at a time would each know half of what they are to balance by, hence `Recreate`;
    with several replicas only the one that leads is ever Ready, and nothing waits for the others.
    """
    metadata = router_metadata(plan, router, router.picker.name)
    if router.picker.replicas > 1:
        own = metadata.get("annotations", {})
        metadata["annotations"] = {**own, labels.PULUMI_SKIP_AWAIT: "true"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": router.picker.replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": picker_labels(router)},
            "template": overlaid(_template(router), router.picker.args.template or {}),
        },
    }


def _template(router: RouterPlan) -> Manifest:
    secret = router.picker.args.tls.secret_name
    volumes: list[Manifest] = [
        {"name": CONFIG_VOLUME, "configMap": {"name": router.picker.config_name}}
    ]
    if secret is not None:
        volumes.append({"name": CERTIFICATE_VOLUME, "secret": {"secretName": secret}})
    return {
        "metadata": {
            "labels": picker_labels(router),
            "annotations": {labels.CONFIG_CHECKSUM: checksum(router)},
        },
        "spec": {
            "serviceAccountName": router.picker.name,
            "automountServiceAccountToken": True,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(router)],
            "volumes": volumes,
        },
    }


def _container(router: RouterPlan) -> Manifest:
    picker = router.picker
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
            _field("NAMESPACE", "metadata.namespace"),
            _field("POD_NAME", "metadata.name"),
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


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


_PROTOCOL = "http2"
_EVENTS = "kv-events"


def picker_service(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the Service; metrics have a port where somebody may read them, as have KV events."""
    known = router.implementation
    protocol = known.picker_protocol if known is not None else _PROTOCOL
    ports = [
        {
            "name": "grpc-ext-proc",
            "port": GRPC_PORT,
            "protocol": "TCP",
            "appProtocol": protocol,
        },
        {"name": "grpc-health", "port": HEALTH_PORT, "protocol": "TCP"},
    ]
    if router.picker.metrics is not MetricsMode.OFF:
        ports.append({"name": names.PICKER_METRICS_PORT, "port": METRICS_PORT, "protocol": "TCP"})
    # Engines that publish their KV events to a picker reach it by its Service.
    events = event_port(router.picker.config)
    if events is not None and events not in [each["port"] for each in ports]:
        ports.append({"name": _EVENTS, "port": events, "protocol": "TCP"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": router_metadata(plan, router, router.picker.name),
        "spec": {"type": "ClusterIP", "selector": picker_labels(router), "ports": ports},
    }
