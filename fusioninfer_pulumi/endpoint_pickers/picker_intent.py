"""Decides what a router role needs from its endpoint picker: strategy, image and pairing."""

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
    read_config,
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


class EppIntent(NamedTuple):
    """The tasks of a service's endpoint picker, and the image chosen for them."""

    strategy: Strategy | None  #: none with `endpointPickerConfig`, and without a picker
    pairs_pods: bool = False  #: whether it chooses a prefill and a decode pod for each request
    flow_control: bool = False  #: whether it holds requests while no pod has capacity for them
    image: Any = None  #: the user's, or a default for these tasks; None without a picker
    family: EppFamily | None = None  #: the release family of the image, or None if it is unknown
    findings: tuple[Finding, ...] = ()  #: errors that explain an unknown family


def choose_epp_intent(
    args: InferenceServiceArgs, router: RoleArgs, shape: ServiceShape
) -> EppIntent:
    """Choose the tasks of a service's endpoint picker, and its image.

    The strategy is the router role's, or a default that depends on whether the service is
    disaggregated. A user's configuration pairs prefill with decode if it has several scheduling
    profiles.
    """
    if not router.has_endpoint_picker:
        return EppIntent(None)
    picker = router.endpoint_picker or EndpointPickerArgs()
    scorers = router.scorers or ()
    has_sessions = router.strategy is Strategy.SESSION_AFFINITY or "session" in scorers
    if router.endpoint_picker_config is not None:
        profiles = read_config_list(router.endpoint_picker_config, "schedulingProfiles")
        gates = read_config_list(router.endpoint_picker_config, "featureGates")
        intent = EppIntent(None, pairs_pods=len(profiles) > 1, flow_control=FLOW_CONTROL in gates)
    else:
        default = Strategy.PD_DISAGGREGATION if shape.is_disaggregated else Strategy.PREFIX_CACHE
        strategy = router.strategy or default
        needs_queue = picker.service_levels is not None or any(
            role.autoscaling is not None and counts_queued_requests(role.autoscaling)
            for role in args.roles
        )
        flow_control = needs_queue if picker.flow_control is None else picker.flow_control
        pairs_pods = strategy is Strategy.PD_DISAGGREGATION
        intent = EppIntent(strategy, pairs_pods=pairs_pods, flow_control=flow_control)
    defaults = get_edition_defaults(args.edition)
    # Only llm-d's endpoint picker has these features.
    has_llm_d_field = router.model_rewrites or picker.service_levels or has_sessions
    if has_llm_d_field or intent.strategy is Strategy.PD_DISAGGREGATION:
        default_image = defaults.pd_picker
    else:
        default_image = defaults.flow_control_picker if intent.flow_control else defaults.picker
    location = ("roles", args.roles.index(router), "endpointPicker")
    image, family, findings = _choose_image(location, picker, default_image, args.image_registry)
    return intent._replace(image=image, family=family, findings=tuple(findings))


def _choose_image(
    location: Location, args: EndpointPickerArgs, default_image: str, registry: str | None
) -> tuple[Any, EppFamily | None, list[Finding]]:
    """Return a picker's image and family (None if unknown), and findings below `location`."""
    image = args.image
    if args.family is not None:
        family = FAMILIES.get(args.family)
        if family is None:
            message = f"must be one of {', '.join(FAMILIES)}, got {quote_value(args.family)}"
            return image, None, [error(PICKER_FAMILY_UNKNOWN, (*location, "family"), message)]
        return use_mirror(family.image, registry) if image is None else image, family, []
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
    intent: EppIntent,
    groups: int | None,
    *,
    has_pair_revision: bool,
) -> PairAffinity | None:
    """Return how a generated configuration pairs prefill with decode pods; None allows any pair.

    In a service with serving groups, even a single one, both pods must be in the same group; with
    group pairing `Preferred` the picker only prefers that. Without groups, the picker prefers pods
    with the same pair revision. If it required that, it would answer HTTP 503 while no revision has
    both prefill and decode pods.
    """
    if intent.strategy is not Strategy.PD_DISAGGREGATION:
        return None
    if groups is None:
        return PairAffinity(labels.PAIR_REVISION) if has_pair_revision else None
    is_strict = args.group_pairing is not GroupPairing.PREFERRED
    # Without the workers of multi-node replicas, which do not serve; leaders have index 0.
    serving_pods = {labels.SERVICE: service, labels.LWS_WORKER_INDEX: "0"}
    return PairAffinity(labels.GROUP_INDEX, is_strict, serving_pods)


def read_config_list(text: str, key: str) -> list[Any]:
    """Return a top-level list of a user's configuration, or empty if it has none."""
    try:
        config = read_config(text)
    except ConfigNotYamlError:
        return []
    items = config.get(key) if isinstance(config, dict) else None
    return items if isinstance(items, list) else []


@lru_cache(maxsize=64)  # several objects of a service need it, and YAML takes milliseconds to parse
def find_event_port(text: str) -> int | None:
    """Return the port on which a configuration receives KV events, or None if it does not."""
    for plugin in read_config_list(text, "plugins"):
        endpoint = lookup(plugin, "parameters", "kvEventsConfig", "zmqEndpoint")
        bound = re.fullmatch(r"tcp://(?:\*|0\.0\.0\.0|\[::\]):([0-9]{1,5})", str(endpoint))
        if bound is not None:
            return int(bound[1])
    return None
