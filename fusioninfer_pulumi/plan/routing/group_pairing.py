"""How the picker keeps the prefill and the decode pod of a request in one serving group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi import labels, pickers
from fusioninfer_pulumi.findings import Finding, error, info, warning
from fusioninfer_pulumi.pickers.config_text import UnreadableError, read_config
from fusioninfer_pulumi.spec.role import RoleArgs, Strategy
from fusioninfer_pulumi.spec.router import EndpointPickerArgs, GroupPairing


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
