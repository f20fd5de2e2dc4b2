"""What prefill and decode pods of two revisions do with each other's KV cache during an update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import RolloutLevel
from fusioninfer_pulumi.engines.engine import EngineCommand, PairState
from fusioninfer_pulumi.engines.engine_commands import read_command
from fusioninfer_pulumi.engines.handshake import compare_pair, pair_revision
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import find_pair_changes, has_pair_stages

#: Component types whose pods exchange KV caches.
PAIR_TYPES = _PREFILL, _DECODE = (ComponentType.PREFILLER.value, ComponentType.DECODER.value)


@dataclass(frozen=True)
class PairLws:
    """A LeaderWorkerSet of a prefill or decode role.

    Attributes:
        pair_revision: Value of its label, empty without one.
        gang: PodGroup that its pods name, empty without one.
    """

    name: str
    role: str
    component_type: str
    command: EngineCommand
    pair_revision: str
    gang: str


def read_pair_lws(
    name: str, own_labels: Mapping[str, Any], gang: str, containers: Iterable[Mapping[str, Any]]
) -> PairLws | None:
    """Read a LeaderWorkerSet from its labels and its leader's containers.

    None for other roles, and where no container runs an engine.
    """
    kind = str(own_labels.get(labels.COMPONENT_TYPE) or "")
    if kind not in PAIR_TYPES:
        return None
    commands = map(read_command, containers)
    command = next((command for command in commands if command.engine is not None), None)
    if command is None:
        return None
    role, pair = (str(own_labels.get(k) or "") for k in (labels.ROLE_NAME, labels.PAIR_REVISION))
    return PairLws(name, role, kind, command, pair, gang)


def describe_mixed_pairs(
    before: Sequence[PairLws],
    after: Sequence[PairLws],
    plan: ServicePlan | None = None,
    *,
    prefers_pairs: bool = False,
) -> Iterator[str]:
    """Describe pairs of old and new pods that an update may create and that are not compatible.

    Nothing where the order of the update and the endpoint picker avoid such pairs, and where the
    engines compare the same before and after.

    Args:
        before: Prefill and decode LeaderWorkerSets of a service before the update.
        after: Those after the update.
        plan: The service after the update, None if it is not known.
        prefers_pairs: Whether the endpoint picker prefers prefill pods of the same pair revision.
    """
    old, new = _by_type(before), _by_type(after)
    if not (len(old) == len(new) == len(PAIR_TYPES)):
        return
    # The labels are complete, where a launcher's script hides the arguments of an engine.
    old_label, new_label = ({lws.pair_revision for lws in side} for side in (before, after))
    if "" in old_label | new_label:
        old_hash, new_hash = (pair_revision([e.command for e in side]) for side in (before, after))
        is_same = old_hash is not None and old_hash == new_hash
    else:
        is_same = old_label == new_label
    if is_same:
        return
    advice = "" if plan is None else _find_advice(before, after, plan, prefers_pairs=prefers_pairs)
    if advice is None:
        return
    mixes = (
        ("old", _changed(_PREFILL, old, new), "new", _changed(_DECODE, new, old)),
        ("new", _changed(_PREFILL, new, old), "old", _changed(_DECODE, old, new)),
    )
    # Evidence and consequences are mostly the same for all pairs.
    pairs: dict[tuple[str, ...], dict[str, None]] = {}
    for prefill_age, prefills, decode_age, decodes in mixes:
        for prefill, decode in product(prefills, decodes):
            verdict = compare_pair(prefill.command, decode.command)
            if verdict.state is PairState.COMPATIBLE:
                continue
            setting = _find_recompute_setting(decode.command)
            remedy = f"before this update, add {setting}" if setting else ""
            clients = verdict.clients or "it is unknown whether decode can use these KV caches"
            key = verdict.state.value, clients, remedy, verdict.source
            pair = f"{prefill_age} {prefill.role} with {decode_age} {decode.role} pods"
            differences = f" ({', '.join(verdict.differences)})" if verdict.differences else ""
            pairs.setdefault(key, {})[pair + differences] = None
    for (state, clients, remedy, source), mixed in pairs.items():
        text = "; ".join(filter(None, (clients, remedy, advice)))
        evidence = f" [{source}]" if source else ""
        yield f"mixed revisions, {state}: {', '.join(mixed)}: {text}{evidence}"


def _find_recompute_setting(decode: EngineCommand) -> str:
    """Return the setting with which no request of a decode engine fails; empty without one."""
    if decode.engine is None:
        return ""
    cache = decode.engine.kv_cache
    fails = cache.load_failure(decode) is PairState.BROKEN and cache.can_reject_pair(decode)
    return cache.recompute_setting if fails else ""


def _by_type(side: Sequence[PairLws]) -> dict[str, list[PairLws]]:
    types: dict[str, list[PairLws]] = {}
    for lws in side:
        known = types.setdefault(lws.component_type, [])
        if lws.command not in [other.command for other in known]:
            known.append(lws)
    return types


def _changed(
    component_type: str, side: Mapping[str, list[PairLws]], other: Mapping[str, list[PairLws]]
) -> list[PairLws]:
    """Return LeaderWorkerSets whose engine only one side has: others belong to both revisions."""
    kept = [lws.command for lws in other[component_type]]
    return [lws for lws in side[component_type] if lws.command not in kept]


def _find_advice(
    before: Sequence[PairLws], after: Sequence[PairLws], plan: ServicePlan, *, prefers_pairs: bool
) -> str | None:
    """Return advice against mixed pairs, maybe empty; None if the update creates none."""
    if plan.shape.groups is not None:
        return (
            None if plan.rollout.level is RolloutLevel.GROUP else "rollout.level: Group avoids it"
        )
    if not all(lws.pair_revision for lws in after):
        return ""
    if not prefers_pairs:
        return "the endpoint picker of llm-d 0.10 or later avoids it"
    if not all(lws.pair_revision for lws in before):
        return "pods of the old revision have no pair revision yet"
    if {lws.name for lws in before} != {lws.name for lws in after}:
        return "an update that adds or removes no replicas avoids it"
    changes = find_pair_changes(plan, {lws.name: (lws.pair_revision, lws.gang) for lws in before})
    if has_pair_stages(plan, changes):
        return None
    return "layout PerReplica with two prefill replicas and strategy Rolling avoids it"
