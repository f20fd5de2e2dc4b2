"""Chooses the strategy, features and image of a router role's endpoint picker."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.autoscaling import counts_queued_requests
from fusioninfer_pulumi.api.role import RoleArgs, Strategy
from fusioninfer_pulumi.api.router import EndpointPickerArgs, GroupPairing
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    FLOW_CONTROL,
    ConfigNotYamlError,
    PairAffinity,
    parse_epp_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    FAMILIES,
    PICKER_FAMILY_UNKNOWN,
    EppFamily,
    explain_unknown_image,
    find_family,
)
from fusioninfer_pulumi.engines.engine_presets import get_edition_defaults
from fusioninfer_pulumi.findings import Finding, Location, error, quote_value
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.containers import use_mirror
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.kube.pulumi_outputs import is_output


class EppChoice(NamedTuple):
    """The strategy, features and image of a service's endpoint picker, and errors about the image.

    Attributes:
        strategy: None if `endpointPickerConfig` is set, or if there is no endpoint picker.
        pairs_pods: Whether the picker chooses a prefill and a decode pod for each request.
        flow_control: Whether the picker holds requests while no pod has capacity for them.
        image: The user's image, or the default for these features; may be an Output. None if there
            is no endpoint picker.
        family: Release family of the image, or None if it is unknown.
        findings: Errors that explain why the family is unknown.
    """

    strategy: Strategy | None
    pairs_pods: bool = False
    flow_control: bool = False
    image: Any = None
    family: EppFamily | None = None
    findings: tuple[Finding, ...] = ()


def choose_epp(args: InferenceServiceArgs, router: RoleArgs, shape: ServiceShape) -> EppChoice:
    """Choose the strategy, features and image of a service's endpoint picker.

    The default strategy depends on whether the service is disaggregated. If the user's
    configuration has more than one scheduling profile, the picker pairs prefill with decode pods.
    """
    if not router.has_endpoint_picker:
        return EppChoice(None)
    picker = router.endpoint_picker or EndpointPickerArgs()
    scorers = router.scorers or ()
    has_sessions = router.strategy is Strategy.SESSION_AFFINITY or "session" in scorers
    if router.endpoint_picker_config is not None:
        profiles = get_config_list(router.endpoint_picker_config, "schedulingProfiles")
        gates = get_config_list(router.endpoint_picker_config, "featureGates")
        choice = EppChoice(None, pairs_pods=len(profiles) > 1, flow_control=FLOW_CONTROL in gates)
    else:
        default = Strategy.PD_DISAGGREGATION if shape.is_disaggregated else Strategy.PREFIX_CACHE
        strategy = router.strategy or default
        needs_queue = picker.service_levels is not None or any(
            role.autoscaling is not None and counts_queued_requests(role.autoscaling)
            for role in args.roles
        )
        flow_control = needs_queue if picker.flow_control is None else picker.flow_control
        pairs_pods = strategy is Strategy.PD_DISAGGREGATION
        choice = EppChoice(strategy, pairs_pods=pairs_pods, flow_control=flow_control)
    defaults = get_edition_defaults(args.edition)
    # Only the endpoint picker of llm-d, the default one for prefill/decode, has these fields.
    has_llm_d_field = router.model_rewrites or picker.service_levels or has_sessions
    if has_llm_d_field or choice.strategy is Strategy.PD_DISAGGREGATION:
        default_image = defaults.pd_picker
    else:
        default_image = defaults.flow_control_picker if choice.flow_control else defaults.picker
    location = ("roles", args.roles.index(router), "endpointPicker")
    image, family, findings = _choose_image(location, picker, default_image, args.image_registry)
    return choice._replace(image=image, family=family, findings=tuple(findings))


def _choose_image(
    location: Location, args: EndpointPickerArgs, default_image: str, registry: str | None
) -> tuple[Any, EppFamily | None, list[Finding]]:
    """Return a picker's image, its family or None if unknown, and findings below `location`."""
    image = args.image
    if args.family is not None:
        family = FAMILIES.get(args.family)
        if family is None:
            message = f"must be one of {', '.join(FAMILIES)}, got {quote_value(args.family)}"
            return image, None, [error(PICKER_FAMILY_UNKNOWN, (*location, "family"), message)]
        return (use_mirror(family.image, registry) if image is None else image), family, []
    if image is None:
        image = use_mirror(default_image, registry)
    if is_output(image):
        message = f"is required with an image that is an Output: {', '.join(FAMILIES)}"
        return image, None, [error(PICKER_FAMILY_UNKNOWN, (*location, "family"), message)]
    family = find_family(image)
    if family is None:
        message = explain_unknown_image(image)
        return image, None, [error(PICKER_FAMILY_UNKNOWN, (*location, "image"), message)]
    return image, family, []


def choose_pair_affinity(
    service: str,
    args: EndpointPickerArgs,
    choice: EppChoice,
    groups: int | None,
    *,
    has_pair_revision: bool,
) -> PairAffinity | None:
    """Return how a generated configuration pairs prefill with decode pods; None allows any pair.

    If the service has serving groups, even a single one, both pods must be in the same group, or
    should be if the group pairing is `Preferred`. If it has none, the picker prefers pods with the
    same pair revision. Requiring the same revision would cause HTTP 503 while no revision has both
    prefill and decode pods.
    """
    if choice.strategy is not Strategy.PD_DISAGGREGATION:
        return None
    if groups is None:
        return PairAffinity(labels.PAIR_REVISION) if has_pair_revision else None
    is_strict = args.group_pairing is not GroupPairing.PREFERRED
    # The workers of multi-node replicas do not serve; leaders have index 0.
    serving_pods = {labels.SERVICE: service, labels.LWS_WORKER_INDEX: "0"}
    return PairAffinity(labels.GROUP_INDEX, is_strict, serving_pods)


def get_config_list(text: str, key: str) -> list[Any]:
    """Return a top-level list of a user's configuration; empty if it is missing or invalid."""
    try:
        config = parse_epp_config(text)
    except ConfigNotYamlError:
        return []
    items = config.get(key) if isinstance(config, dict) else None
    return items if isinstance(items, list) else []


@lru_cache(maxsize=64)  # several objects of a service need it, and YAML takes milliseconds to parse
def find_picker_events_port(text: str) -> int | None:
    """Return the port on which a configuration receives KV events, or None if it receives none."""
    for plugin in get_config_list(text, "plugins"):
        endpoint = lookup(plugin, "parameters", "kvEventsConfig", "zmqEndpoint")
        address = re.fullmatch(r"tcp://(?:\*|0\.0\.0\.0|\[::\]):([0-9]{1,5})", str(endpoint))
        if address is not None:
            return int(address[1])
    return None
