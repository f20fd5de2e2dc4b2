"""Incompatible pairs, such as old prefill with new decode pods, during an update.

`PAIR_FINDERS` lists the functions that find them. The facts about releases and their sources are in
`engines` and `endpoint_pickers`. Pairs that no function yields are assumed to be compatible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    find_family,
    find_sidecar_image_family,
    is_sidecar,
)
from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.engine import Compatibility, EngineCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.metric_names import METRIC, METRICS_SOURCE, has_metric
from fusioninfer_pulumi.engines.pair_compatibility import (
    compare_pair,
    compute_pair_revision,
    get_pair_setting,
)
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import list_items, lookup
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import (
    compare_pair_revisions,
    has_pair_waves,
    is_group_rollout,
)
from fusioninfer_pulumi.topology.gang import get_lws_gang_reference

#: Component types whose pods exchange KV caches.
PAIR_TYPES = (ComponentType.PREFILLER.value, ComponentType.DECODER.value)


@dataclass(frozen=True)
class EngineLws:
    """A LeaderWorkerSet whose leader runs an engine.

    Attributes:
        revision: Value of the label `revision`, or empty.
        pair_revision: Value of the label `pair-revision`, or empty.
        gang: The `GangPlan.reference` of its pods, or empty.
        sidecar: Image of the prefill/decode sidecar, or empty; `<output>` if it is an Output.
    """

    name: str
    role: str
    component_type: str
    command: EngineCommand
    revision: str
    pair_revision: str
    gang: str
    sidecar: str = ""


_LABELS = labels.COMPONENT_TYPE, labels.ROLE_NAME, labels.REVISION, labels.PAIR_REVISION


def extract_engines(manifests: Iterable[Mapping[str, Any]]) -> list[EngineLws]:
    """Return the LeaderWorkerSets whose leader runs an engine; malformed objects are ignored."""
    engines = []
    for manifest in manifests:
        template = lookup(manifest, "spec", "leaderWorkerTemplate")
        pod = lookup(template, "leaderTemplate", "spec") or lookup(
            template, "workerTemplate", "spec"
        )
        containers = [*list_items(pod, "containers"), *list_items(pod, "initContainers")]
        commands = [parse_command(container) for container in containers]
        command = next((command for command in commands if command.engine is not None), None)
        if command is None:
            continue
        name = str(lookup(manifest, "metadata", "name"))
        component_type, role, revision, pair_revision = (
            str(lookup(manifest, "metadata", "labels", key) or "") for key in _LABELS
        )
        sidecar = next((item.get("image") for item in containers if is_sidecar(item)), "")
        engines.append(
            EngineLws(
                name=name,
                role=role or name,
                component_type=component_type,
                command=command,
                revision=revision,
                pair_revision=pair_revision,
                gang=get_lws_gang_reference(manifest),
                sidecar=sidecar if isinstance(sidecar, str) else "<output>",
            )
        )
    return engines


def _omit_unchanged(engines: Iterable[EngineLws], other: Iterable[EngineLws]) -> list[EngineLws]:
    """Return one LeaderWorkerSet per role and revision, without those of engines in `other`."""
    other_commands = [(lws.component_type, lws.command) for lws in other]
    # Outputs hide arguments, but equal revisions mean equal engines.
    other_revisions = {(lws.role, lws.revision) for lws in other if lws.revision}
    lws_by_revision = {
        (lws.role, lws.revision): lws
        for lws in engines
        if (lws.component_type, lws.command) not in other_commands
    }
    return [lws for key, lws in lws_by_revision.items() if key not in other_revisions]


@dataclass(frozen=True)
class UpdateComparison:
    """A service before and after an update.

    Attributes:
        before: LeaderWorkerSets with engines before the update.
        objects: All objects of the service after the update.
        plan: The service after the update, or None if unknown.
        objects_before: All objects of the service before the update; empty in previews.
    """

    before: Sequence[EngineLws]
    objects: Sequence[Mapping[str, Any]]
    plan: ServicePlan | None = None
    objects_before: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def after(self) -> list[EngineLws]:
        """LeaderWorkerSets with engines after the update."""
        return extract_engines(self.objects)

    @cached_property
    def changed_engines(self) -> list[tuple[EngineLws, EngineLws]]:
        """The old and the new engine of each role whose engine changes."""
        old_by_role = {lws.role: lws for lws in self.before}
        old_by_type = {lws.component_type: lws for lws in self.before}
        new_by_role = {lws.role: lws for lws in _omit_unchanged(self.after, self.before)}
        pairs = []
        for role, new in new_by_role.items():
            # A new role is compared with an existing role of its component type.
            old = old_by_role.get(role) or old_by_type.get(new.component_type)
            if old is not None:
                pairs.append((old, new))
        return pairs


@dataclass(frozen=True)
class MixedPair:
    """Two components that communicate during an update and may be incompatible.

    Attributes:
        members: The two components, such as `clients and new serve pods`.
        effect: What clients see.
        remedy: How to avoid or fix the effect, or empty.
        source: Where the effect was read or measured; empty if it is unknown.
    """

    state: Compatibility
    members: str
    effect: str
    remedy: str = ""
    source: str = ""


def describe_mixed_revisions(update: UpdateComparison) -> list[str]:
    """Describe the pairs that may be incompatible, the worst first."""
    ranks = [Compatibility.BROKEN, Compatibility.DEGRADED, Compatibility.UNKNOWN]
    pairs = [pair for find_pairs in PAIR_FINDERS for pair in find_pairs(update)]
    pairs.sort(key=lambda pair: ranks.index(pair.state))
    # Pairs that differ only in their members share a line.
    members_by_text: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        text = "; ".join(filter(None, (pair.effect, pair.remedy)))
        evidence = f" ({pair.source})" if pair.source else ""
        members = members_by_text.setdefault((pair.state.value, f"{text}{evidence}"), [])
        if pair.members not in members:
            members.append(pair.members)
    return [
        f"mixed revisions, {state}: {', '.join(members)}: {text}"
        for (state, text), members in members_by_text.items()
    ]


def _find_prefill_decode_pairs(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield pairs of old and new prefill and decode pods.

    No pairs exist if the update order and the endpoint picker avoid them. Pairs are compatible if
    the settings that prefill and decode engines compare do not change.
    """
    before, after = (
        [lws for lws in side if lws.component_type in PAIR_TYPES]
        for side in (update.before, update.after)
    )
    if any({lws.component_type for lws in side} != {*PAIR_TYPES} for side in (before, after)):
        return
    # The labels are right even if a launch script hides the engine's arguments.
    old_labels, new_labels = ({lws.pair_revision for lws in side} for side in (before, after))
    if "" in old_labels | new_labels:
        old_hash, new_hash = (
            compute_pair_revision([lws.command for lws in side]) for side in (before, after)
        )
        is_compatible = old_hash is not None and old_hash == new_hash
    else:
        is_compatible = old_labels == new_labels
    if is_compatible:
        return
    advice = "" if update.plan is None else _advise_against_pairs(before, after, update.plan)
    if advice is None:
        return
    changed = {"old": _omit_unchanged(before, after), "new": _omit_unchanged(after, before)}
    for prefill_age, decode_age in (("old", "new"), ("new", "old")):
        for prefill, decode in product(changed[prefill_age], changed[decode_age]):
            if (prefill.component_type, decode.component_type) != PAIR_TYPES:
                continue
            compatibility = compare_pair(prefill.command, decode.command)
            if compatibility.state is Compatibility.COMPATIBLE:
                continue
            engine = decode.command.engine
            setting = engine.kv_cache.find_recompute_setting(decode.command) if engine else ""
            remedy = f"before this update, add {setting}" if setting else ""
            names = ", ".join(compatibility.differences)
            differences = f" ({names})" if names else ""
            yield MixedPair(
                compatibility.state,
                f"{prefill_age} {prefill.role} with {decode_age} {decode.role} pods{differences}",
                compatibility.client_effect
                or "it is unknown whether decode can use these KV caches",
                "; ".join(filter(None, (remedy, advice))),
                compatibility.source,
            )


def _find_outages(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield an outage if the engine of the only decode replica changes, which restarts it."""
    roles = update.plan.roles if update.plan else ()
    decode = [role for role in roles if role.component_type is ComponentType.DECODER]
    restarted = {new.role for _, new in update.changed_engines}
    if sum(len(role.replicas) for role in decode) != 1:
        return
    for role in decode:
        # With maxUnavailable 0, the old replica serves until the surge replica is ready.
        surges = role.rollout.max_surge and not role.rollout.max_unavailable
        if role.name in restarted and not surges and not role.is_autoscaled:
            yield MixedPair(
                Compatibility.BROKEN,
                f"clients and {role.name} pods",
                "requests fail with HTTP 429 or 503 while the only decode replica restarts",
                "two decode replicas avoid this; layout: PerRole with rollout.maxSurge: 1 and "
                "rollout.maxUnavailable: 0 avoids almost all failures",
                "measured with vLLM 0.31.0 and 0.32.0, docs/failures.md",
            )


def _advise_against_pairs(
    before: Sequence[EngineLws], after: Sequence[EngineLws], plan: ServicePlan
) -> str | None:
    """Return how to avoid mixed pairs; empty if unknown, or None if the update causes none."""
    if plan.shape.groups is not None:
        return None if is_group_rollout(plan) else "rollout.level: Group avoids it"
    if not all(lws.pair_revision for lws in after):
        return ""
    if plan.picker is None or not plan.picker.epp.prefers_pairs:
        return "the endpoint picker of llm-d 0.10 or later avoids it"
    if not all(lws.pair_revision for lws in before):
        return (
            "this update cannot avoid it, because the old pods have no pair revision; "
            "later updates can"
        )
    if {lws.name for lws in before} != {lws.name for lws in after}:
        return "an update that adds or removes no replicas avoids it"
    changes = compare_pair_revisions(
        plan, {lws.name: (lws.pair_revision, lws.gang) for lws in before}
    )
    if has_pair_waves(plan, changes):
        return None
    return "layout PerReplica with two prefill replicas and strategy Rolling avoids it"


def _find_rejected_model_names(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield pods that reject a model name that clients or the endpoint picker request."""
    old_names = [lws.command.requestable_names for lws in update.before]
    rewrites = dict(_find_rewrites(update.objects))
    known_names = [names for names in old_names if names is not None]
    served_names = set.intersection(*known_names) if known_names else set[str]()
    # Maps each name that clients may request to the names that pods may receive instead.
    requests = {name: {name} for name in served_names} | rewrites
    pods = [("new", new, old, requests) for old, new in update.changed_engines]
    # Old pods serve all names that clients request; only new rewrites can lead to other names.
    pods += [("old", old, new, rewrites) for old, new in update.changed_engines]
    for age, lws, other_lws, requested in pods:
        members, engine = f"clients with {age} {lws.role} pods", lws.command.engine
        names = lws.command.requestable_names
        has_same_names = lws.command.arguments == other_lws.command.arguments
        if engine is None or not engine.http.rejects_unknown_models or has_same_names:
            continue
        if names is None:
            yield MixedPair(Compatibility.UNKNOWN, members, "it is unknown which names they serve")
            continue
        missing = sorted(name for name, targets in requested.items() if not targets <= names)
        if missing:
            yield _describe_missing_names(missing, members, engine.http.api_source)
    # The endpoint picker rewrote these names before the update, and no longer does.
    removed = dict(_find_rewrites(update.objects_before)).keys() - rewrites.keys()
    after_by_role = {lws.role: lws for lws in update.after}
    for role, lws in after_by_role.items():
        engine, names = lws.command.engine, lws.command.requestable_names
        missing = [] if names is None else sorted(removed - names)
        if missing and engine is not None and engine.http.rejects_unknown_models:
            members = f"clients with {role} pods"
            yield _describe_missing_names(missing, members, engine.http.api_source)


def _describe_missing_names(names: Sequence[str], members: str, source: str) -> MixedPair:
    return MixedPair(
        Compatibility.BROKEN,
        members,
        f"requests for {', '.join(names)} fail with HTTP 404 on these pods",
        "keep the old name (--served-model-name, --lora-modules or modelRewrites) until the update "
        "is over and no client requests it",
        source,
    )


def _find_rewrites(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, set[str]]]:
    """Yield each model name that the endpoint picker rewrites, and the names that replace it."""
    for manifest in objects:
        is_rewrite = manifest.get("kind") == object_names.REWRITE_KIND
        for rule in list_items(manifest, "spec", "rules") if is_rewrite else ():
            targets = {
                str(lookup(target, "modelRewrite")) for target in list_items(rule, "targets")
            }
            for match in list_items(rule, "matches"):
                yield str(lookup(match, "model", "value")), targets


_TOOLS, _REASONING = "--tool-call-parser", "--reasoning-parser"
#: A flag, and what clients see if its value changes, if it is removed, and if it is added.
_PARSERS = (
    (_TOOLS, "responses may contain tool calls in another format",
     "requests with tools fail, or responses contain tool calls as text", ""),
    (_REASONING, "responses may split off the reasoning differently",
     "responses contain the reasoning in their content",
     "responses return the reasoning separately from their content"),
)  # fmt: skip


def _find_format_changes(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield pods whose responses clients may fail to parse."""
    remedy = "make clients accept both formats before this update"
    for old, new in update.changed_engines:
        members, engine = f"clients and new {new.role} pods", new.command.engine
        for flag, changed, removed, added in _PARSERS:
            old_value, new_value = (lws.command.value(flag) for lws in (old, new))
            text = added
            if old_value:
                text = changed if new_value else removed
            if old_value != new_value and text:
                change = f"({flag} {old_value or 'unset'} -> {new_value or 'unset'})"
                yield MixedPair(Compatibility.DEGRADED, f"{members} {change}", text, remedy)
        old_fields = _find_reasoning_fields(old.command)
        new_fields = _find_reasoning_fields(new.command)
        removed_name = next((name for name in old_fields if name not in new_fields), None)
        if removed_name and new_fields and engine is not None and new.command.has(_REASONING):
            text = f"responses contain the reasoning in `{new_fields[0]}`, not in `{removed_name}`"
            yield MixedPair(Compatibility.DEGRADED, members, text, remedy, engine.http.api_source)


def _find_reasoning_fields(command: EngineCommand) -> tuple[str, ...]:
    release = parse_release(get_pair_setting(command, "release") or "")
    fields = command.engine.http.reasoning_fields if command.engine else {}
    latest_first = reversed([*fields.items()])
    return next((names for since, names in latest_first if release >= parse_release(since)), ())


#: The metrics of a query, which needs one of them: `a or b` is {a, b}.
_Query = frozenset[str]


def _find_missing_metrics(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield objects that query engine metrics which only one of the two revisions has."""
    readers = list(_list_queries(update))
    for old, new in update.changed_engines:
        if old.command.image == new.command.image:
            continue
        for reader, queries in readers:
            old_exports = [_exports_any(query, old.command) for query in queries]
            new_exports = [_exports_any(query, new.command) for query in queries]
            if None in old_exports or None in new_exports:
                yield MixedPair(
                    Compatibility.UNKNOWN,
                    f"{reader} with new {new.role} pods",
                    "it is unknown whether both images have the metrics that it reads",
                    "compare their metrics before this update",
                )
                continue
            for age, lws, exports, other_exports in (
                ("old", old, old_exports, new_exports),
                ("new", new, new_exports, old_exports),
            ):
                missing = {
                    name
                    for query, has_one, other_has_one in zip(
                        queries, exports, other_exports, strict=True
                    )
                    if other_has_one and not has_one
                    for name in query
                }
                if missing:
                    yield MixedPair(
                        Compatibility.DEGRADED,
                        f"{reader} with {age} {lws.role} pods",
                        f"these pods do not export {', '.join(sorted(missing))}, so their "
                        "load is not counted",
                        "query the names of both releases, joined by `or`",
                        METRICS_SOURCE,
                    )


def _exports_any(query: _Query, command: EngineCommand) -> bool | None:
    """Return whether an engine exports any metric of a query, or None if unknown."""
    release = get_pair_setting(command, "release")
    engine = "" if command.engine is None else command.engine.name
    exports = [has_metric(name, engine, release) for name in query]
    if True in exports:
        return True
    return None if None in exports else False


def _list_queries(update: UpdateComparison) -> Iterator[tuple[str, list[_Query]]]:
    """Yield each object that queries engine metrics (its kind and name), with its queries."""
    for manifest in update.objects:
        queries = list(dict.fromkeys(_find_queries(manifest)))
        # A script in an engine's pod queries that engine, which has the pod's revision.
        if queries and not lookup(manifest, "spec", "leaderWorkerTemplate"):
            yield f"{manifest.get('kind')} {lookup(manifest, 'metadata', 'name')}", queries
    epp = update.plan.picker.epp if update.plan and update.plan.picker else None
    # If the picker's configuration or flags name metrics, the loop has yielded their object.
    if epp is not None and not METRIC.search(" ".join((epp.config, *epp.flags))):
        yield "endpoint picker", [frozenset({name}) for name in epp.family.engine_metrics]


def _find_queries(value: Any) -> Iterator[_Query]:
    if isinstance(value, str):
        # The JSON text of a dashboard has one query per line.
        for line in value.splitlines():
            names = [match.group() for match in METRIC.finditer(line)]
            if names and " or " in line:
                yield frozenset(names)
            else:
                yield from (frozenset({name}) for name in names)
    elif isinstance(value, Mapping):
        yield from _find_queries([*value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _find_queries(item)


def _find_unknown_sidecars(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield new sidecars of unknown releases, which may not read the endpoint picker's headers.

    The sidecars of llm-d 0.9 and 0.10 read the header `x-prefiller-host-port`
    (`pkg/common/routing`), which the endpoint pickers of both releases send.
    """
    old_images = {"", *(lws.sidecar for lws in update.before)}
    for lws in update.after:
        if lws.sidecar not in old_images and find_sidecar_image_family(lws.sidecar) is None:
            yield MixedPair(
                Compatibility.UNKNOWN,
                f"endpoint picker with new {lws.role} pods (sidecar {lws.sidecar})",
                "it is unknown whether this sidecar reads the picker's headers",
            )


def _find_unknown_pickers(update: UpdateComparison) -> Iterator[MixedPair]:
    """Yield the endpoint picker if its image is new and its release unknown."""
    image = update.plan.picker.epp.image if update.plan and update.plan.picker else None
    old_images = [
        item.get("image")
        for manifest in update.objects_before
        for item in list_items(manifest, "spec", "template", "spec", "containers")
    ]
    is_new = bool(old_images) and image not in old_images
    if isinstance(image, str) and is_new and find_family(image) is None:
        yield MixedPair(
            Compatibility.UNKNOWN,
            f"engines and sidecars with the new endpoint picker ({image})",
            "it is unknown whether it reads their metrics, and which headers it sends",
        )


#: There is no function for gateways with endpoint pickers, because both read InferencePools of v1,
#: and none for KV cache events, because pickers read those of vLLM 0.11.0 to 0.33.0 as arrays and
#: as maps (`kvevents/engineadapter` of llm-d 0.9 and 0.10).
PAIR_FINDERS: tuple[Callable[[UpdateComparison], Iterator[MixedPair]], ...] = (
    _find_rejected_model_names,
    _find_prefill_decode_pairs,
    _find_outages,
    _find_format_changes,
    _find_missing_metrics,
    _find_unknown_sidecars,
    _find_unknown_pickers,
)
