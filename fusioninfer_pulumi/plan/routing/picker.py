"""Plans the endpoint picker: which image, what it is told, and whether it understands that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi import names, pickers
from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.findings import Finding, error, errors, info, join, parse_path, warning
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.pickers import PickerFamily, PickerFlags, PickerRequest
from fusioninfer_pulumi.plan.credentials import credential_findings
from fusioninfer_pulumi.plan.day_two.tracing import tracing_env
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.plan.routing.group_pairing import (
    Intent,
    group_pairing,
    group_pairing_findings,
    listed,
)
from fusioninfer_pulumi.plan.routing.picker_image import picker_image
from fusioninfer_pulumi.plan.routing.records import PickerPlan
from fusioninfer_pulumi.plan.topology import is_prefill_decode
from fusioninfer_pulumi.plan.volume_rules import pod_volume_findings
from fusioninfer_pulumi.spec.day_two import TracingArgs
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.spec.router import EndpointPickerArgs, MetricsMode

#: Where the picker's container finds its certificate.
CERTIFICATE_PATH = "/certificate"
#: Volumes of its pod.
CONFIG_VOLUME, CERTIFICATE_VOLUME = "plugins-config-volume", "certificate"
#: The container's own namespace, expanded by Kubernetes: for namespaces that are Outputs.
OWN_NAMESPACE = "$(NAMESPACE)"


def picker_intent(args: RoleArgs, declared: Sequence[RoleArgs]) -> Intent:
    """Decides what the picker is for.

    Args:
        args: The router role.
        declared: All roles of the service.

    Returns:
        The strategy, by default the one that the service's roles ask for. A configuration of the
        user's own pairs prefill with decode if it has a scheduling profile for each.
    """
    if args.endpoint_picker_config is not None:
        return Intent(None, _profiles(args.endpoint_picker_config) > 1)
    fallback = Strategy.PD_DISAGGREGATION if is_prefill_decode(declared) else Strategy.PREFIX_CACHE
    strategy = args.strategy or fallback
    return Intent(strategy, strategy is Strategy.PD_DISAGGREGATION)


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
        replace(each, location=parse_path(f"{at}.endpointPicker.args{each.path}"))
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
        where = f"{at}.endpointPickerConfig"
        found = [
            replace(each, location=parse_path(f"{where}.{each.path}" if each.path else where))
            for each in pickers.check_config(text, family, own_image=own)
        ]
        return text, "as its endpointPickerConfig says", found
    request = PickerRequest(
        strategy=intent.strategy.value,
        scorers=args.scorers,
        block_size=_block_size(served),
        prefill_decode=pickers.PrefillDecode(
            threshold=given.threshold or 0,
            prefill=ComponentType.PREFILLER.value,
            decode=ComponentType.DECODER.value,
            groups=pairing,
        ),
    )
    # Which roles there are is checked with the pool.
    found = [
        replace(each, location=parse_path(f"{at}.{_FIELDS.get(each.path, each.path)}"))
        for each in pickers.check_strategy(family, request)
    ]
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


_FIELDS = {
    "threshold": "endpointPicker.threshold",
    "blockSize": "strategy",
    "groups": "endpointPicker.image",
}


def _block_size(served: Sequence[RolePlan]) -> int | None:
    """Tokens in a block of the engines' KV cache, None where it is not known or not one."""
    sizes = {table.block_size(role.serving.command) for role in served}
    return sizes.pop() if len(sizes) == 1 else None


def _profiles(text: str) -> int:
    return len(listed(text, "schedulingProfiles"))


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
