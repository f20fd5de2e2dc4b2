"""Manifests with slips of the pen, of all systems and the same for a seed.

A mutant is a manifest of the documents, of the importers' samples, or drawn from a seed
(`tests/drawn_services`), in which some fields are missing, misspelt, of another type, given twice,
swapped, at the edge of their range, or are fields of Kubernetes' that pods seldom have.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from e2e.inputs import DOCUMENTS
from importers.tests import documents, kserve_documents

Manifest = dict[str, Any]
Place = tuple[str | int, ...]

#: Services drawn as a base of mutants.
DRAWN = 150


@dataclass(frozen=True)
class Mutant:
    """A mutated input: the name of its base, what was done to it, and its documents."""

    name: str
    slips: tuple[str, ...]
    documents: list[Manifest]


BASES, SLIPS = (Path(__file__).with_name(f"{name}.yaml") for name in ("mutation_bases", "slips"))
#: Longer than the annotations of an object may be.
_LONG = "x" * 300_000


@cache
def _seldom() -> dict[str, list[Manifest]]:
    """Fields that seldom stand in pods, by what they are written into."""
    held: dict[str, list[Manifest]] = yaml.safe_load(SLIPS.read_text(encoding="utf-8"))
    kinds = ("livenessProbe", "readinessProbe", "startupProbe")
    held["container"] += [{kind: each} for kind in kinds for each in held["probe"]]
    hooks = ("preStop", "postStart")
    held["container"] += [{"lifecycle": {hook: each}} for hook in hooks for each in held["hook"]]
    held["metadata"].append({"annotations": {"long": _LONG}})
    return held


#: Values of no type in particular, for any field.
_EDGES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 65535, 65536, 2**31, 2**63, 10**25, 0.5, 1.5, -0.1, "", " ",
    "0", "-1", "1.5", "500m", "0.5Gi", "1e3", "1Kib", "true", "None", "x", "X", "x y", "a.b", "a/b",
    "a_b", "-a", "a-", "x" * 64, "x" * 300, "ü", "$(A)", "100%", "101%", "10s", "http", [], [None],
    ["a"], ["a", "a"], [{}], [{"name": "a"}], {}, {"a": 1}, {"a": "b"}, {"name": "a"},
)  # fmt: skip


@cache
def _rich_bases() -> dict[str, list[Manifest]]:
    loaded = yaml.safe_load(BASES.read_text(encoding="utf-8"))
    found: dict[str, list[Manifest]] = json.loads(json.dumps(loaded["bases"]))
    fetched = found["own, with a model"][0]["spec"]["roles"][0]["template"]["spec"]
    fetched["containers"][0]["args"] = ["--port", "8000"]
    main = copy.deepcopy(loaded["pod"]["spec"])
    main["containers"][0]["name"] = "main"
    del main["containers"][0]["args"]
    router: Manifest = {"route": {}, "gateway": {}, "scheduler": {}}
    found["kserve, rich"] = [kserve_documents.complete({"template": main, "router": router})]
    deployment = copy.deepcopy(documents.DOCUMENTS["modelplane-model-deployment-disaggregated"])
    (engine,) = deployment["spec"]["workers"]["template"]["spec"]["containers"]
    engine["env"] = [{"name": "A", "value": "b"}]
    engine["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    found["modelplane, rich"] = [deployment]
    return found


@cache
def bases() -> dict[str, list[Manifest]]:
    found = dict(_rich_bases())
    for name, path in DOCUMENTS.items():
        found[name] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    found |= {name: [document] for name, document in documents.DOCUMENTS.items()}
    others = {**kserve_documents.acceptable(), "edited": kserve_documents.edited()}
    return found | {f"kserve, {name}": [document] for name, document in others.items()}


def _drawn(seed: int) -> list[Manifest]:
    # By its name: pytest finds the tests' packages, and mypy does not.
    documents: list[Manifest] = import_module("drawn_services").draw_service(seed).documents
    return documents


def mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yields mutants that are the same for a seed."""
    draw = random.Random(seed)
    named = list(bases())
    rich = list(_rich_bases())
    for _ in range(count):
        where = draw.random()
        if where < 0.4:
            name = draw.choice(rich)
        elif where < 0.75:
            name = draw.choice(named)
        else:
            name = f"drawn {draw.randrange(DRAWN)}"
        given = bases()[name] if name in bases() else _drawn(int(name[6:]))
        held: list[Manifest] = json.loads(json.dumps(given))
        slips = [_slip(draw, held) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        yield Mutant(name, tuple(slips), held)


def _slip(draw: random.Random, given: list[Manifest]) -> str:
    """Makes one slip, and says which."""
    places = list(_places(given))
    if draw.random() < 0.45 and (found := _add_fields(draw, given, places)):
        return found
    place = draw.choice(places)
    slip = draw.choice(_SLIPS)
    holder = _at(given, place[:-1])
    slip(draw, holder, place[-1])
    left = holder.get(place[-1]) if isinstance(holder, dict) else holder
    return f"{_path(place)}: {slip.__name__} {json.dumps(left)[:80]}"


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(value)
    elif isinstance(value, list):
        inner = list(range(len(value)))
    for part in inner:
        # Nothing is left of a document without its kind.
        if len(at) == 1 and part in ("apiVersion", "kind"):
            continue
        if at or isinstance(value[part], dict):
            if at:
                yield (*at, part)
            yield from _places(value[part], (*at, part))


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def _path(place: Place) -> str:
    return ".".join(map(str, place))


def _add_fields(draw: random.Random, given: list[Manifest], places: list[Place]) -> str | None:
    """Writes fields of Kubernetes' into a pod, a container, metadata or a mount."""
    kind = draw.choice(("pod", "pod", "container", "container", "container", "metadata", "mount"))
    fits = _FITTING[kind]
    fitting = [place for place in places if fits(_at(given, place))]
    if not fitting:
        return None
    place = draw.choice(fitting)
    held = _at(given, place)
    if kind == "pod" and draw.random() < 0.15:
        init = copy.deepcopy(draw.choice(_seldom()["init"]))
        held["initContainers"] = [*(held.get("initContainers") or ()), init]
        return f"{_path(place)}: init container"
    more = copy.deepcopy(draw.choice(_seldom()[kind]))
    for key, value in more.items():
        merged = isinstance(value, list) and isinstance(held.get(key), list) and draw.random() < 0.7
        deep = isinstance(value, dict) and isinstance(held.get(key), dict) and draw.random() < 0.5
        held[key] = [*held[key], *value] if merged else {**held[key], **value} if deep else value
    return f"{_path(place)}: {json.dumps(more)[:150]}"


def _is_container(held: Any) -> bool:
    return isinstance(held, dict) and "name" in held and bool({"image", "args", "env"} & set(held))


_FITTING: Mapping[str, Callable[[Any], bool]] = {
    "pod": lambda held: isinstance(held, dict) and "containers" in held,
    "container": _is_container,
    "metadata": lambda held: isinstance(held, dict) and "labels" in held,
    "mount": lambda held: isinstance(held, dict) and "mountPath" in held,
}


# Slips. Each changes what a dict or list holds under a key.


def _delete(_: random.Random, holder: Any, key: Any) -> None:
    del holder[key]


def _set_edge(draw: random.Random, holder: Any, key: Any) -> None:
    holder[key] = copy.deepcopy(draw.choice(_EDGES))


def _change_type(draw: random.Random, holder: Any, key: Any) -> None:
    held = holder[key]
    changed: Any = "x"
    if isinstance(held, (bool, int, float)):
        changed = str(held)
    elif isinstance(held, str):
        changed = int(held) if held.isdigit() else draw.choice((True, 1, [held], {"value": held}))
    elif isinstance(held, list):
        changed = held[0] if held else {}
    elif isinstance(held, dict):
        pairs = [{"name": str(name), "value": value} for name, value in held.items()]
        changed = [held] if draw.random() < 0.5 else pairs
    holder[key] = changed


def _repeat(draw: random.Random, holder: Any, key: Any) -> None:
    if not isinstance(holder, list):
        _set_edge(draw, holder, key)
        return
    again = copy.deepcopy(holder[key])
    if isinstance(again, dict) and again and draw.random() < 0.5:
        field = draw.choice(list(again))
        again[field] = _near(draw, again[field])
    holder.append(again)


def _misspell(draw: random.Random, holder: Any, key: Any) -> None:
    if not isinstance(holder, dict):
        _repeat(draw, holder, key)
        return
    wrong = draw.choice(
        (f"{key}s", key[:-1] or "x", key.lower(), key.upper(), f"{key}Name", f"x-{key}")
    )
    holder[wrong] = holder.pop(key) if draw.random() < 0.6 else holder[key]


def _near(draw: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice((value + 1, value - 1, -value, value * 1000, 0, value + 2**31))
    if isinstance(value, float):
        return -value
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return draw.choice(
            (value.upper(), value.capitalize(), f"{value}s", value[:-1], f" {value}", f"{value} ",
             f"{value}-", f"-{value}", value.replace("-", "_"), value.replace(".", ""),
             value[:at] + draw.choice("/_.:-A1 ") + value[at:], value * 9, f"{value}.", f"/{value}")
        )  # fmt: skip
    return value


def _set_near(draw: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder[key], (dict, list)):
        _set_edge(draw, holder, key)
    else:
        holder[key] = _near(draw, holder[key])


def _rename_near(draw: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[_near(draw, str(key))] = holder.pop(key)
    else:
        _set_near(draw, holder, key)


def _swap(draw: random.Random, holder: Any, key: Any) -> None:
    other = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _add_unknown(draw: random.Random, holder: Any, key: Any) -> None:
    if isinstance(holder[key], dict):
        value: Any = draw.choice((1, "x", {}))
        holder[key][draw.choice(("unknown", "enabled", "Name", "spec", "replicas"))] = value
    else:
        _set_edge(draw, holder, key)


_SLIPS: tuple[Callable[[random.Random, Any, Any], None], ...] = (
    _delete, _set_edge, _change_type, _repeat, _misspell, _set_near, _set_near, _rename_near, _swap,
    _add_unknown,
)  # fmt: skip
