"""What clients see while an update runs pods of two revisions.

`ROWS` lists the pairs of parts that talk to each other. Their facts, with their sources, are in
`engines` and `endpoint_pickers`; a pair that no row yields is compatible as far as is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from operator import attrgetter
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import RolloutLevel
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    find_family,
    find_sidecar_image_family,
)
from fusioninfer_pulumi.endpoint_pickers.sidecar_releases import is_sidecar
from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.engine import EngineCommand, PairState
from fusioninfer_pulumi.engines.engine_commands import read_command
from fusioninfer_pulumi.engines.handshake import compare_pair, pair_revision, read_pair_setting
from fusioninfer_pulumi.engines.metric_names import METRIC, METRICS_SOURCE, has_metric
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import at
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import find_pair_changes, has_pair_stages
from fusioninfer_pulumi.topology.gang import pod_group_reference

#: Component types whose pods exchange KV caches.
PAIR_TYPES = (ComponentType.PREFILLER.value, ComponentType.DECODER.value)


@dataclass(frozen=True)
class EngineLws:
    """A LeaderWorkerSet whose leader runs an engine.

    Attributes:
        revision: Value of its label, empty without one.
        pair_revision: Likewise.
        gang: PodGroup that its pods name, empty without one.
        sidecar: Image of its prefill/decode sidecar, empty without one.
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


def read_engines(manifests: Iterable[Mapping[str, Any]]) -> list[EngineLws]:
    """Find the LeaderWorkerSets that run engines; malformed objects are tolerated."""
    engines = []
    for manifest in manifests:
        template = at(manifest, "spec", "leaderWorkerTemplate")
        pod = at(template, "leaderTemplate", "spec") or at(template, "workerTemplate", "spec")
        containers = [*_items(pod, "containers"), *_items(pod, "initContainers")]
        commands = filter(attrgetter("engine"), map(read_command, containers))
        for command in islice(commands, 1):
            name = str(at(manifest, "metadata", "name"))
            kind, role, revision, pair = (
                str(at(manifest, "metadata", "labels", key) or "") for key in _LABELS
            )
            sidecars = (item.get("image") for item in containers if is_sidecar(item))
            images = (image if isinstance(image, str) else "<output>" for image in sidecars)
            gang, image = pod_group_reference(manifest), next(images, "")
            engines.append(
                EngineLws(name, role or name, kind, command, revision, pair, gang, image)
            )
    return engines


def _items(value: Any, key: str) -> list[Mapping[str, Any]]:
    items = at(value, key)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _find_changed(side: Iterable[EngineLws], other: Iterable[EngineLws]) -> list[EngineLws]:
    """Return LeaderWorkerSets whose engine only one side has, one of each role and revision."""
    kept = [(lws.component_type, lws.command) for lws in other]
    # Outputs hide arguments, and the revision does not depend on their values.
    same = {(lws.role, lws.revision) for lws in other if lws.revision}
    lws_of_revision = {
        (lws.role, lws.revision): lws
        for lws in side
        if (lws.component_type, lws.command) not in kept
    }
    return [lws for key, lws in lws_of_revision.items() if key not in same]


@dataclass(frozen=True)
class Update:
    """What an update changes in a service.

    Attributes:
        before: LeaderWorkerSets with engines before the update.
        objects: All objects of the service after the update.
        plan: The service after the update, None if it is not known.
        objects_before: All objects of the service before the update, none in previews.
    """

    before: Sequence[EngineLws]
    objects: Sequence[Mapping[str, Any]]
    plan: ServicePlan | None = None
    objects_before: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def after(self) -> list[EngineLws]:
        """LeaderWorkerSets with engines after the update."""
        return read_engines(self.objects)

    def new_engines(self) -> list[tuple[EngineLws, EngineLws]]:
        """Return the old and the new engine of each role whose engine changes."""
        # A role that the update adds serves together with the others of its type.
        olds = {lws.component_type: lws for lws in self.before}
        olds |= {lws.role: lws for lws in self.before}
        news = {lws.role: lws for lws in _find_changed(self.after, self.before)}
        pairs = [(olds.get(new.role) or olds.get(new.component_type), new) for new in news.values()]
        return [(old, new) for old, new in pairs if old is not None]


@dataclass(frozen=True)
class MixedPair:
    """Two parts that meet during an update and are not known to be compatible.

    Attributes:
        parts: The two parts, such as `clients with new serve pods`.
        clients: What clients see.
        remedy: What to do about it, maybe empty.
        source: Where that was read or measured; empty where it is unknown.
    """

    state: PairState
    parts: str
    clients: str
    remedy: str = ""
    source: str = ""


def describe_mixed_revisions(update: Update) -> list[str]:
    """Describe the pairs that are not known to be compatible, the worst first."""
    lines: dict[tuple[str, ...], dict[str, None]] = {}
    for find in ROWS if update.before else ():
        for pair in find(update):
            # Evidence and consequences are mostly the same for several pairs.
            key = pair.state.value, pair.clients, pair.remedy, pair.source
            lines.setdefault(key, {})[pair.parts] = None
    ranks = [state.value for state in (PairState.BROKEN, PairState.DEGRADED, PairState.UNKNOWN)]
    texts = []
    ordered = sorted(lines.items(), key=lambda line: ranks.index(line[0][0]))
    for (state, clients, remedy, source), parts in ordered:
        text = "; ".join(filter(None, (clients, remedy)))
        evidence = f" [{source}]" if source else ""
        texts.append(f"mixed revisions, {state}: {', '.join(parts)}: {text}{evidence}")
    return texts


def _find_prefill_decode(update: Update) -> Iterator[MixedPair]:
    """Yield pairs of old and new prefill and decode pods.

    Yields nothing if the order of the update and the endpoint picker avoid such pairs, or if the
    engines compare the same before and after.
    """
    before, after = (
        [lws for lws in side if lws.component_type in PAIR_TYPES]
        for side in (update.before, update.after)
    )
    if any({lws.component_type for lws in side} != {*PAIR_TYPES} for side in (before, after)):
        return
    # The labels are complete even if a launcher's script hides the arguments of an engine.
    old_label, new_label = ({lws.pair_revision for lws in side} for side in (before, after))
    if "" in old_label | new_label:
        old_hash, new_hash = (pair_revision([e.command for e in side]) for side in (before, after))
        is_same = old_hash is not None and old_hash == new_hash
    else:
        is_same = old_label == new_label
    if is_same:
        return
    advice = "" if update.plan is None else _find_advice(before, after, update.plan)
    if advice is None:
        return
    changed = {"old": _find_changed(before, after), "new": _find_changed(after, before)}
    for prefill_age, decode_age in (("old", "new"), ("new", "old")):
        for prefill, decode in product(changed[prefill_age], changed[decode_age]):
            verdict = compare_pair(prefill.command, decode.command)
            is_pair = (prefill.component_type, decode.component_type) == PAIR_TYPES
            if verdict.state is PairState.COMPATIBLE or not is_pair:
                continue
            setting = _find_recompute_setting(decode.command)
            remedy = f"before this update, add {setting}" if setting else ""
            differences = f" ({', '.join(verdict.differences)})" if verdict.differences else ""
            yield MixedPair(
                verdict.state,
                f"{prefill_age} {prefill.role} with {decode_age} {decode.role} pods{differences}",
                verdict.clients or "it is unknown whether decode can use these KV caches",
                "; ".join(filter(None, (remedy, advice))),
                verdict.source,
            )


def _find_outages(update: Update) -> Iterator[MixedPair]:
    """Yield the only decode replica of a service, which serves nothing while it restarts."""
    roles = update.plan.roles if update.plan else ()
    decode = [role for role in roles if role.component_type is ComponentType.DECODER]
    restarted = {new.role for _, new in update.new_engines()}
    if sum(len(role.replicas) for role in decode) != 1:
        return
    for role in decode:
        surges = role.rollout.max_surge and not role.rollout.max_unavailable
        if role.name in restarted and not surges and not role.scaled_externally:
            yield MixedPair(
                PairState.BROKEN,
                f"clients with {role.name} pods",
                "requests fail with HTTP 503 while the only decode replica restarts",
                "two decode replicas avoid it, or layout: PerRole with rollout.maxSurge: 1 and "
                "rollout.maxUnavailable: 0",
                "measured with vLLM 0.31.0 and 0.32.0, docs/failures.md",
            )


def _find_recompute_setting(decode: EngineCommand) -> str:
    """Return the setting with which no request of a decode engine fails; empty without one."""
    if decode.engine is None:
        return ""
    cache = decode.engine.kv_cache
    fails = cache.load_failure(decode) is PairState.BROKEN and cache.can_reject_pair(decode)
    return cache.recompute_setting if fails else ""


def _find_advice(
    before: Sequence[EngineLws], after: Sequence[EngineLws], plan: ServicePlan
) -> str | None:
    """Return advice on avoiding mixed pairs, possibly empty; None if the update creates none."""
    if plan.shape.groups is not None:
        return (
            None if plan.rollout.level is RolloutLevel.GROUP else "rollout.level: Group avoids it"
        )
    if not all(lws.pair_revision for lws in after):
        return ""
    if plan.picker is None or not plan.picker.epp.prefers_pairs:
        return "the endpoint picker of llm-d 0.10 or later avoids it"
    if not all(lws.pair_revision for lws in before):
        return "pods of the old revision have no pair revision yet"
    if {lws.name for lws in before} != {lws.name for lws in after}:
        return "an update that adds or removes no replicas avoids it"
    changes = find_pair_changes(plan, {lws.name: (lws.pair_revision, lws.gang) for lws in before})
    if has_pair_stages(plan, changes):
        return None
    return "layout PerReplica with two prefill replicas and strategy Rolling avoids it"


def _find_model_names(update: Update) -> Iterator[MixedPair]:
    """Yield pods that reject requests for a name that clients or the endpoint picker use."""
    served = [lws.command.requestable_names for lws in update.before]
    rewritten = dict(_rewritten_names(update.objects))
    known = [names for names in served if names is not None]
    asked = {name: {name} for name in set.intersection(*known)} if known else {}
    asked |= rewritten
    pods = [("new", new, old, asked) for old, new in update.new_engines()]
    pods += [("old", old, new, rewritten) for old, new in update.new_engines()]
    for age, lws, other, requests in pods:
        parts, engine = f"clients with {age} {lws.role} pods", lws.command.engine
        names = lws.command.requestable_names
        is_same = lws.command.arguments == other.command.arguments
        if engine is None or not engine.rejects_unknown_models or is_same:
            continue
        if names is None:
            yield MixedPair(PairState.UNKNOWN, parts, "it is unknown which names they serve")
            continue
        missing = sorted(name for name, targets in requests.items() if not targets <= names)
        if missing:
            yield _describe_missing(missing, parts, engine.api_source)
    # Aliases that the endpoint picker rewrites no longer.
    removed = {*dict(_rewritten_names(update.objects_before))} - rewritten.keys()
    for lws in {lws.role: lws for lws in update.after}.values():
        engine, names = lws.command.engine, lws.command.requestable_names
        missing = sorted(removed.difference(removed if names is None else names))
        if missing and engine is not None and engine.rejects_unknown_models:
            yield _describe_missing(missing, f"clients with {lws.role} pods", engine.api_source)


def _describe_missing(names: Sequence[str], parts: str, source: str) -> MixedPair:
    return MixedPair(
        PairState.BROKEN,
        parts,
        f"requests for {', '.join(names)} fail with HTTP 404 on these pods",
        "serve the old and the new name until the update is over and no client asks for the old "
        "one",
        source,
    )


def _rewritten_names(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, set[str]]]:
    """Yield the names that the endpoint picker rewrites, and the names that pods get."""
    for manifest in objects:
        is_rewrite = manifest.get("kind") == object_names.REWRITE_KIND
        for rule in _items(at(manifest, "spec"), "rules") if is_rewrite else ():
            targets = {str(at(target, "modelRewrite")) for target in _items(rule, "targets")}
            for match in _items(rule, "matches"):
                yield str(at(match, "model", "value")), targets


_TOOLS, _REASONING = "--tool-call-parser", "--reasoning-parser"
#: Flag, and what clients see where its value changes, where it is removed and where it is added.
_PARSERS = (
    (_TOOLS, "these answers may have tool calls in another form",
     "requests with tools fail, or get tool calls as text", ""),
    (_REASONING, "these answers may separate the reasoning in another way",
     "these answers have the reasoning in their content",
     "these answers have the reasoning apart from their content"),
)  # fmt: skip


def _find_answers(update: Update) -> Iterator[MixedPair]:
    """Yield pods whose answers have another form for clients."""
    remedy = "let clients accept both forms before this update"
    for old, new in update.new_engines():
        parts, engine = f"clients with new {new.role} pods", new.command.engine
        for flag, changed, removed, added in _PARSERS:
            was, is_ = (lws.command.value(flag) for lws in (old, new))
            text = changed if was and is_ else removed if was else added
            if was != is_ and text:
                values = f"{parts} ({flag} {was or 'unset'} -> {is_ or 'unset'})"
                yield MixedPair(PairState.DEGRADED, values, text, remedy)
        was_in, is_in = map(_reasoning_fields, (old.command, new.command))
        gone = [name for name in was_in if name not in is_in]
        if gone and is_in and engine is not None and new.command.has(_REASONING):
            text = f"these answers have the reasoning in `{is_in[0]}`, and not in `{gone[0]}`"
            yield MixedPair(PairState.DEGRADED, parts, text, remedy, engine.api_source)


def _reasoning_fields(command: EngineCommand) -> tuple[str, ...]:
    number = parse_release(read_pair_setting(command, "release") or "")
    fields = command.engine.reasoning_names if command.engine else {}
    return next((fields[since] for since in [*fields][::-1] if number >= parse_release(since)), ())


#: Names of metrics in one query, any of which suffices.
_Query = frozenset[str]


def _find_metrics(update: Update) -> Iterator[MixedPair]:
    """Yield readers of engines' metrics whose names only one of the two revisions has."""
    readers = list(_read_queries(update))
    for old, new in update.new_engines():
        if old.command.image == new.command.image:
            continue
        ages = ("old", old), ("new", new)
        for reader, queries in readers:
            answers = [[_is_answered(q, lws.command) for _, lws in ages] for q in queries]
            if any(None in answer for answer in answers):
                yield MixedPair(
                    PairState.UNKNOWN,
                    f"{reader} with new {new.role} pods",
                    "it is unknown whether both images have the metrics that it reads",
                    "compare their metrics before this update",
                )
                continue
            for index, (age, lws) in enumerate(ages):
                pairs = zip(queries, answers, strict=True)
                lost = [query for query, answer in pairs if any(answer) and not answer[index]]
                names = ", ".join(sorted({name for query in lost for name in query}))
                if names:
                    yield MixedPair(
                        PairState.DEGRADED,
                        f"{reader} with {age} {lws.role} pods",
                        f"it reads {names}, which these pods do not have, and "
                        "does not see their load",
                        "query the names of both releases, joined by `or`",
                        METRICS_SOURCE,
                    )


def _is_answered(query: _Query, command: EngineCommand) -> bool | None:
    release = read_pair_setting(command, "release")
    engine = "" if command.engine is None else command.engine.name
    answers = [has_metric(name, engine, release) for name in query]
    return True if True in answers else None if None in answers else False


def _read_queries(update: Update) -> Iterator[tuple[str, list[_Query]]]:
    """Yield each reader of engine metrics with its queries."""
    for manifest in update.objects:
        queries = list(dict.fromkeys(_find_queries(manifest)))
        if queries and not at(manifest, "spec", "leaderWorkerTemplate"):
            yield f"{manifest.get('kind')} {at(manifest, 'metadata', 'name')}", queries
    epp = update.plan.picker.epp if update.plan and update.plan.picker else None
    if epp is not None and not METRIC.search(" ".join((epp.config, *epp.arguments))):
        yield "endpoint picker", [frozenset({name}) for name in epp.family.engine_metrics]


def _find_queries(value: Any) -> Iterator[_Query]:
    if isinstance(value, str):
        # A dashboard has each of its queries on a line of its own.
        for line in value.splitlines():
            names = [match.group() for match in METRIC.finditer(line)]
            queries = [names] if " or " in line else [[name] for name in names]
            yield from map(frozenset, filter(None, queries))
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _find_queries(item)


def _find_sidecars(update: Update) -> Iterator[MixedPair]:
    """Yield sidecars that may not understand the endpoint picker.

    Those of llm-d 0.9 and 0.10 read the same header, `x-prefiller-host-port`
    (`pkg/common/routing`), which both of its endpoint pickers send.
    """
    old_images = {"", *(lws.sidecar for lws in update.before)}
    for lws in update.after:
        if lws.sidecar not in old_images and find_sidecar_image_family(lws.sidecar) is None:
            yield MixedPair(
                PairState.UNKNOWN,
                f"endpoint picker with new {lws.role} pods (sidecar {lws.sidecar})",
                "it is unknown whether this sidecar reads the picker's headers",
            )


def _find_pickers(update: Update) -> Iterator[MixedPair]:
    """Yield an endpoint picker that the update brings, if its image does not say its release."""
    image = update.plan.picker.epp.image if update.plan and update.plan.picker else None
    before = [
        item.get("image")
        for manifest in update.objects_before
        for item in _items(at(manifest, "spec", "template", "spec"), "containers")
    ]
    if isinstance(image, str) and before and image not in before and find_family(image) is None:
        yield MixedPair(
            PairState.UNKNOWN,
            f"engines and sidecars with the new endpoint picker ({image})",
            "it is unknown whether it reads their metrics, and which headers it sends",
        )


#: Every pair of parts that an update may mix, and what decides whether it is compatible. All known
#: endpoint pickers read InferencePools of v1, which gateways do as well, and events of the KV cache
#: of vLLM 0.11.0 to 0.33.0 as arrays and as maps (`kvevents/engineadapter` of llm-d 0.9 and 0.10).
ROWS: tuple[Callable[[Update], Iterator[MixedPair]], ...] = (
    _find_model_names,
    _find_prefill_decode,
    _find_outages,
    _find_answers,
    _find_metrics,
    _find_sidecars,
    _find_pickers,
)
