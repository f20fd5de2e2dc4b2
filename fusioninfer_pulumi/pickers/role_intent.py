"""What a router role asks of its endpoint picker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi import pickers
from fusioninfer_pulumi.api.role import RoleArgs, Strategy
from fusioninfer_pulumi.api.router import EndpointPickerArgs, GroupPairing
from fusioninfer_pulumi.api.topology import is_prefill_decode
from fusioninfer_pulumi.findings import Finding, error, info, shown, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pickers import FAMILIES, PickerFamily
from fusioninfer_pulumi.pickers.config_text import UnreadableError, read_config


@dataclass(frozen=True)
class Intent:
    """What the picker is for.

    Attributes:
        strategy: The strategy, None where the user wrote the configuration.
        pairs: Whether prefill and decode pods are told apart, so that the pool holds both.
    """

    strategy: Strategy | None
    pairs: bool


def group_pairing(
    service: str, given: EndpointPickerArgs, intent: Intent, groups: int | None
) -> pickers.GroupPairing | None:
    """What a configuration of ours says about groups; None without groups or without pairs.

    Also for a single group, so that a second one changes nothing of the picker.
    """
    if groups is None or intent.strategy is not Strategy.PD_DISAGGREGATION:
        return None
    return pickers.GroupPairing(
        # The workers of a multi-node replica carry the other labels too, and serve nothing.
        selector={labels.SERVICE: service, labels.LWS_WORKER_INDEX: "0"},
        strict=given.group_pairing is not GroupPairing.PREFERRED,
    )


def group_pairing_findings(
    at: str, args: RoleArgs, intent: Intent, groups: int | None
) -> Iterator[Finding]:
    """What is to be said about groups and the picker.

    Args:
        at: Path of the router role.
        args: The router role.
        intent: What its picker is for.
        groups: Serving groups of the service, None without.

    Yields:
        Findings.
    """
    given = args.endpoint_picker or EndpointPickerArgs()
    ours = groups is not None and intent.strategy is Strategy.PD_DISAGGREGATION
    if given.group_pairing is not None and not ours:
        why = (
            "the service has no groups"
            if groups is None
            else "the configuration is your own"
            if intent.strategy is None
            else f"the strategy is {intent.strategy.value}, which pairs nothing"
        )
        yield error(f"{at}.endpointPicker.groupPairing", f"has no effect: {why}; remove it")
    if ours and given.group_pairing is not GroupPairing.PREFERRED:
        yield info(
            f"{at}.endpointPicker.groupPairing",
            "each request is drawn a group, and its pods are of that group: a shared prefix is "
            "looked for there only; Preferred looks in all groups",
        )
    if groups is not None and intent.strategy is None and intent.pairs:
        kinds = {
            plugin.get("type")
            for plugin in listed(args.endpoint_picker_config or "", "plugins")
            if isinstance(plugin, dict)
        }
        if not kinds & set(pickers.PAIRING_PLUGINS):
            yield warning(
                f"{at}.endpointPickerConfig",
                "pairs prefill with decode pods of any group; "
                f"{' or '.join(pickers.PAIRING_PLUGINS)} on the label {labels.GROUP_INDEX} keeps "
                "them in one",
            )


def listed(text: str, key: str) -> list[Any]:
    """A list at the top of a user's own configuration, empty where it has none."""
    try:
        config, _ = read_config(text)
    except UnreadableError:
        return []
    found = config.get(key) if isinstance(config, dict) else None
    return found if isinstance(found, list) else []


def event_port(text: str) -> int | None:
    """The port on which a configuration waits for engines' KV events, None where it does not."""
    for plugin in listed(text, "plugins"):
        parameters = plugin.get("parameters") if isinstance(plugin, dict) else None
        events = parameters.get("kvEventsConfig") if isinstance(parameters, dict) else None
        endpoint = events.get("zmqEndpoint") if isinstance(events, dict) else None
        bound = re.fullmatch(r"tcp://(?:\*|0\.0\.0\.0|\[::\]):([0-9]{1,5})", str(endpoint))
        if bound is not None:
            return int(bound[1])
    return None


def picker_image(
    at: str, given: EndpointPickerArgs, intent: Intent
) -> tuple[Any, PickerFamily | None, list[Finding]]:
    """Decides which picker runs.

    Args:
        at: Path of the router's `endpointPicker`.
        given: What the user says of it.
        intent: What it is for.

    Returns:
        The image, which may be an Output; its family, None where it is not known; what is to be
        said.
    """
    stated = None
    if given.family is not None:
        stated = FAMILIES.get(given.family)
        if stated is None:
            message = f"must be one of {', '.join(FAMILIES)}, got {shown(given.family)}"
            return given.image, None, [error(f"{at}.family", message)]
    image = given.image
    if image is None:
        pd = intent.strategy is Strategy.PD_DISAGGREGATION
        default = pickers.DEFAULT_PD_IMAGE if pd else pickers.DEFAULT_IMAGE
        image = stated.image if stated is not None else default
    if is_output(image):
        if stated is None:
            message = f"is required beside an image that is an Output: {', '.join(FAMILIES)}"
            return image, None, [error(f"{at}.family", message)]
        return image, stated, []
    known = pickers.family_of(image)
    if known is None and stated is None:
        return image, None, [error(f"{at}.image", pickers.unknown_image(image))]
    if known is not None and stated is not None and known is not stated:
        message = f"is {stated.name}, but {image} looks like {known.name}; remove one of them"
        return image, stated, [warning(f"{at}.family", message)]
    return image, stated or known, []


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


def _profiles(text: str) -> int:
    return len(listed(text, "schedulingProfiles"))
