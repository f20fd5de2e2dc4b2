"""`size`: the layouts of a model that fit accelerators, and a manifest or program of one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_capacity.fit.architecture import Architecture, known_architecture
from fusioninfer_capacity.fit.engines import SIZED
from fusioninfer_capacity.fit.estimate import Estimates, NotCoveredError
from fusioninfer_capacity.fit.load import Load, Served, decoded, prefilled, served
from fusioninfer_capacity.fit.roles import named_accelerator, pool_accelerator
from fusioninfer_capacity.fit.sizing import Layout, Wish, arguments, layouts
from fusioninfer_pulumi.plugins.capacity import (
    ENGINES,
    SHARED_MEMORY,
    InvalidServiceError,
    InventoryArgs,
    NodePoolArgs,
    TaintEffect,
    load_inventory,
    print_service,
    working,
)


@dataclass(frozen=True)
class Place:
    """Where replicas of a layout may run.

    Attributes:
        pool: The pool; None without an inventory.
        replicas: Replicas for which it has room; None without an inventory.
    """

    pool: NodePoolArgs | None
    replicas: int | None


@dataclass(frozen=True)
class Proposal:
    """A layout with replicas.

    Attributes:
        layout: The layout of each replica.
        place: Where they run.
        replicas: Replicas that decode, or do all.
        prefillers: Replicas that prefill; 0 where the others do.
        served: What one replica serves, None without load figures.
        prefilled: What one prefiller serves.
        source: What the times rest on.
    """

    layout: Layout
    place: Place
    replicas: int
    prefillers: int = 0
    served: Served | None = None
    prefilled: Served | None = None
    source: str | None = None

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas."""
        return (self.replicas + self.prefillers) * self.layout.accelerators


class Unsized(Exception):  # noqa: N818  # becomes a line on standard error
    """Why nothing can be sized."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `size`."""
    parser.add_argument("model", metavar="MODEL", help="name of a model, as on Hugging Face")
    parser.add_argument("--accelerator", required=True, help="such as H100, or its memory: 80Gi")
    parser.add_argument("--inventory", metavar="POOLS", help="only what these node pools have free")
    parser.add_argument("--per-node", type=_positive, default=8, metavar="N", help="default: 8")
    parser.add_argument("--max-model-len", type=_positive, metavar="N", help="default: the model's")
    parser.add_argument(
        "--engine", choices=("vllm", "sglang"), default="vllm", help="default: vllm"
    )
    parser.add_argument("--requests-per-second", type=_rate, metavar="R")
    parser.add_argument("--input-tokens", type=_positive, metavar="I")
    parser.add_argument("--output-tokens", type=_positive, metavar="O")
    parser.add_argument("--ttft", metavar="2s", help="longest time to the first token")
    parser.add_argument("--tpot", metavar="40ms", help="longest time for each further token")
    parser.add_argument(
        "--output", choices=("text", "yaml", "python"), default="text", help="default: text"
    )


def _positive(text: str) -> int:
    if re.fullmatch(r"[1-9][0-9]{0,8}", text) is None:
        raise argparse.ArgumentTypeError(f"wanted a positive number, got {text!r}")
    return int(text)


def _rate(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) is None or float(text) == 0:
        raise argparse.ArgumentTypeError(f"wanted a positive rate, got {text!r}")
    return float(text)


def size(options: argparse.Namespace) -> int:
    """Prints layouts, or the first one as a manifest or a program."""
    try:
        inventory = _inventory(options.inventory)
        wish = _wish(options, inventory)
        load = _load(options)
        with working(f"{wish.name}: sizing"):
            found = layouts(wish)
            proposals = list(_proposals(wish, found, inventory, load))
    except (Unsized, NotCoveredError) as problem:
        sys.stderr.write(f"fusioninfer-pulumi size: {problem}\n")
        return 2
    if options.output == "text":
        sys.stdout.writelines(f"{line}\n" for line in _text(wish, found, proposals, load))
        return 0 if proposals else 2
    if not proposals:
        reasons = "; ".join(f"{_name(each)}: {each.reason}" for each in found if each.reason)
        sys.stderr.write(f"fusioninfer-pulumi size: nothing fits: {reasons}\n")
        return 2
    print_service(manifest(wish, proposals[0], inventory), options.output)
    return 0


# What is asked for.


def _inventory(path: str | None) -> InventoryArgs | None:
    if path is None:
        return None

    try:
        return load_inventory(path)
    except OSError as problem:
        raise Unsized(f"{path}: {problem.strerror or problem}") from None
    except InvalidServiceError as problem:
        raise Unsized(f"{path}: {problem}") from None


def _wish(options: argparse.Namespace, inventory: InventoryArgs | None) -> Wish:
    model: Architecture | None = known_architecture(options.model)
    if model is None:
        raise Unsized(f"{options.model} is not in the table of models")
    accelerator = named_accelerator(options.accelerator)
    if accelerator is None:
        raise Unsized(f"{options.accelerator} is not known: give a name such as H100, or 80Gi")
    pools = _pools(inventory, accelerator.name)
    if inventory is not None and not pools:
        raise Unsized(f"no pool of {options.inventory} has {accelerator.name}")
    return Wish(
        name=options.model,
        model=model,
        accelerator=accelerator,
        per_node=max((pool.accelerators for pool in pools), default=options.per_node),
        engine=options.engine,
        length=options.max_model_len,
    )


def _pools(inventory: InventoryArgs | None, accelerator: str) -> list[NodePoolArgs]:
    """Pools with these accelerators, the cheapest first."""
    pools = inventory.pools if inventory is not None else []
    own = [
        pool
        for pool in pools
        if pool.resource is not None
        and (kind := named_accelerator(pool_accelerator(pool) or "")) is not None
        and kind.name == accelerator
    ]
    return sorted(own, key=lambda pool: pool.cost)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


def _load(options: argparse.Namespace) -> Load | None:
    rates = (options.requests_per_second, options.input_tokens, options.output_tokens)
    if all(each is None for each in (*rates, options.ttft, options.tpot)):
        return None
    if any(each is None for each in rates):
        raise Unsized("a load needs --requests-per-second, --input-tokens and --output-tokens")
    return Load(*rates, _seconds("--ttft", options.ttft), _seconds("--tpot", options.tpot))


def _seconds(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Unsized(f"{flag} must be a time such as 2s or 40ms, got {text}")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


# What is proposed.


def _proposals(
    wish: Wish, found: Sequence[Layout], inventory: InventoryArgs | None, load: Load | None
) -> Iterator[Proposal]:
    """Yields layouts that fit, with replicas for the load; the fewest accelerators first."""
    fitting = [each for each in found if each.reason is None]
    if load is None:
        for layout in fitting:
            place = _place(wish, layout, inventory, 1)
            if place is not None:
                yield Proposal(layout, place, 1)
        return
    proposals: list[Proposal] = []
    refused: list[str] = []
    for layout in fitting:
        try:
            proposals += _loaded(wish, layout, inventory, load)
        except NotCoveredError as problem:
            refused.append(str(problem))
    if not proposals and refused:
        raise NotCoveredError(refused[0])
    yield from sorted(proposals, key=lambda each: (each.accelerators, each.prefillers))


def _loaded(
    wish: Wish, layout: Layout, inventory: InventoryArgs | None, load: Load
) -> Iterator[Proposal]:
    assert layout.fit is not None, "it fits"
    if layout.fit.tokens is None:
        return
    times = Estimates(wish.name, wish.accelerator.name, wish.engine, layout.tensor, layout.nodes)
    most = layout.fit.tokens / (load.input + load.output)
    alone = served(times, load, most)
    if alone is not None:
        count = alone.replicas(load.rate)
        place = _place(wish, layout, inventory, count)
        if place is not None:
            yield Proposal(layout, place, count, served=alone, source=times.source)
    first, then = prefilled(times, load), decoded(times, load, most)
    if first is not None and then is not None:
        prefillers, decoders = first.replicas(load.rate), then.replicas(load.rate)
        place = _place(wish, layout, inventory, prefillers + decoders)
        if place is not None:
            yield Proposal(layout, place, decoders, prefillers, then, first, times.source)


def _place(
    wish: Wish, layout: Layout, inventory: InventoryArgs | None, replicas: int
) -> Place | None:
    """The cheapest pool with room for so many replicas; None where none has."""
    if inventory is None:
        return Place(None, None)
    for pool in _pools(inventory, wish.accelerator.name):
        free = room(pool, layout)
        if free >= replicas:
            return Place(pool, free)
    return None


def room(pool: NodePoolArgs, layout: Layout) -> int:
    """Replicas for which a pool has room: each pod takes accelerators of one node."""
    held = [*pool.in_use, *[0] * (pool.nodes - len(pool.in_use))]
    pods = sum((pool.accelerators - used) // layout.tensor for used in held)
    return pods // layout.nodes


# Manifests.


def manifest(wish: Wish, proposal: Proposal, inventory: InventoryArgs | None) -> dict[str, Any]:
    """A manifest of a proposal."""
    name = re.sub(r"[^a-z0-9]+", "-", wish.name.rpartition("/")[2].lower()).strip("-")[:40]
    name = name.strip("-") if name[:1].isalpha() else f"m-{name}"
    roles: list[dict[str, Any]] = []
    if proposal.prefillers:
        roles.append({"name": "router", "componentType": "router",
                      "strategy": "pd-disaggregation", "httproute": {}, "gateway": {}})  # fmt: skip
        for role, kind, count in (
            ("prefill", "prefiller", proposal.prefillers),
            ("decode", "decoder", proposal.replicas),
        ):
            own = _role(wish, proposal, inventory, role, kind, count)
            roles.append(
                {**own, "kvTransfer": {"connector": SIZED[wish.engine].proposal.connector}}
            )
    else:
        roles.append(_role(wish, proposal, inventory, "serve", "worker", proposal.replicas))
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"roles": roles},
    }


def _role(
    wish: Wish,
    proposal: Proposal,
    inventory: InventoryArgs | None,
    name: str,
    kind: str,
    replicas: int,
) -> dict[str, Any]:
    layout, pool = proposal.layout, proposal.place.pool
    resource = pool.resource if pool is not None and pool.resource else "nvidia.com/gpu"
    limits = {resource: layout.tensor}
    proposed = SIZED[wish.engine].proposal
    container: dict[str, Any] = {"name": wish.engine, "image": proposed.image}
    if not ENGINES[wish.engine].image_serves:
        container["command"] = list(proposed.program)
    container["args"] = arguments(wish, layout.tensor, layout.nodes)
    container["resources"] = {"limits": limits}
    spec: dict[str, Any] = {"containers": [container]}
    if layout.tensor > 1:
        # Ranks of one pod talk through shared memory, of which a container has 64Mi by default.
        container["volumeMounts"] = [{"name": "shm", "mountPath": SHARED_MEMORY}]
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if pool is not None and inventory is not None:
        label = inventory.selector_label
        if label is not None:
            spec["nodeSelector"] = {label: inventory.selected_by(pool)}
        if tolerations := _tolerations(pool):
            spec["tolerations"] = tolerations
    role: dict[str, Any] = {"name": name, "componentType": kind, "replicas": replicas}
    role["accelerator"] = wish.accelerator.name
    if layout.nodes > 1:
        role["multinode"] = {"nodeCount": layout.nodes}
        if proposed.launcher is not None:
            role["multinode"]["launcher"] = proposed.launcher
    role["template"] = {"spec": spec}
    return role


def _tolerations(pool: NodePoolArgs) -> list[dict[str, Any]]:
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect.value}
        for taint in pool.taints
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
    ]


# Text.

#: Proposals that are shown; the others take more accelerators.
_SHOWN = 8


def _name(layout: Layout) -> str:
    stages = f" x PP{layout.nodes} ({layout.nodes} nodes)" if layout.nodes > 1 else ""
    return f"TP{layout.tensor}{stages}"


def _text(
    wish: Wish, found: Sequence[Layout], proposals: Sequence[Proposal], load: Load | None
) -> Iterator[str]:
    length = wish.length or wish.model.longest
    yield f"{wish.name} on {wish.accelerator.name}, sequences of {length} tokens"
    yield ""
    if proposals:
        rows = [_row(each) for each in proposals[:_SHOWN]]
        heads = ["LAYOUT", "ROLES", "GPUS", "WEIGHTS", "KV CACHE", "TOKENS", "REQUESTS", "FREE FOR"]
        if load is not None:
            heads += ["REQUESTS/S", "TTFT", "TPOT"]
        yield from _aligned([heads, *rows])
        if len(proposals) > _SHOWN:
            yield f"and {len(proposals) - _SHOWN} with more accelerators"
        yield ""
        if proposals[0].source is not None:
            yield f"Times are estimates by {proposals[0].source}:"
            yield "steps alone, and held up by other requests. Transfer of KV cache is not in them."
            yield ""
    else:
        yield "nothing fits"
        yield ""
    for layout in found:
        if layout.reason is not None:
            yield f"not {_name(layout)}: {layout.reason}"
    missing = {each.layout for each in proposals}
    for layout in found:
        if layout.reason is None and layout not in missing:
            yield f"not {_name(layout)}: no pool has room, or the load takes longer"


def _row(proposal: Proposal) -> list[str]:
    layout = proposal.layout
    assert layout.fit is not None, "it fits"
    _, _, weights, _, cache, tokens, requests = layout.fit.row()
    roles = f"{proposal.replicas} serve"
    if proposal.prefillers:
        roles = f"{proposal.prefillers} prefill + {proposal.replicas} decode"
    place = proposal.place
    free = "" if place.pool is None else f"{place.replicas} on {place.pool.name}"
    row = [_name(layout), roles, str(proposal.accelerators), weights, cache, tokens, requests, free]
    if proposal.served is None:
        return row
    first = proposal.prefilled or proposal.served
    rate = proposal.served.rate * proposal.replicas
    if proposal.prefilled is not None:
        rate = min(rate, proposal.prefilled.rate * proposal.prefillers)
    low, high = first.ttft
    least, most = proposal.served.tpot
    tpot = f"{1000 * least:.0f}-{1000 * most:.0f}ms"
    return [*row, f"{rate:.2f}", f"{low:.2f}-{high:.2f}s", tpot]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
