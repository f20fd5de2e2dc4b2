"""How a strategy spreads a workload: the table of docs/routing.md, on every supported picker.

Time is counted, not measured, so that a busy machine changes nothing: after each request the
picker reads the metrics that the pods then have.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from e2e.routers import NEEDS_LLM_D, picker_versions
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Chooser, Fleet

REQUESTS = 90
#: That a strategy chooses from.
PODS = 3
#: Requests of one pod at a time, and how long each takes; a third of the pods cannot do them all.
SLOTS, SECONDS = 4, 1.0
#: Of what three pods can do together.
UTILIZATION = 0.75
#: With a shared prompt: the busiest pod's share, in shares of a pod.
MOST = 1.5
#: With conversations: the part of the prefixes of the pure form that are met.
LEAST = 0.8

pytestmark = pytest.mark.upstream

PREFILLER = "x-prefiller-host-port"

CLAIM = "Default strategies use all pods even if all requests share a prompt or adapter"

SYSTEM = "You are the assistant of a large company. Answer in whole sentences, and briefly. " * 20


@dataclass(frozen=True)
class Request:
    """One request of a workload; `key` names what its pod may hold already."""

    prompt: str
    key: str
    model: str = "m"


def shared_prompt(random: Random) -> Iterator[Request]:
    for number in range(REQUESTS):
        yield Request(f"{SYSTEM}{number}: {random.random()}", "system")


def conversations(random: Random) -> Iterator[Request]:
    """Fifteen conversations of six turns, interleaved."""
    count = REQUESTS // 6
    turns = [index for index in range(count) for _ in range(6)]
    random.shuffle(turns)
    histories = {
        index: f"Conversation {index} about {random.random()}. " * 8 for index in range(count)
    }
    for index in turns:
        yield Request(histories[index], str(index))
        histories[index] += f"The answer was {random.random()}, and the next question. " * 6


def hot_adapter(random: Random) -> Iterator[Request]:
    for _ in range(REQUESTS):
        model = "sql" if random.random() < 0.8 else random.choice(("chat", "poems"))
        yield Request(f"{random.random()} is new. " * 20, model, model)


WORKLOADS: dict[str, Callable[[Random], Iterator[Request]]] = {
    "one system prompt": shared_prompt,
    "many conversations": conversations,
    "one hot adapter": hot_adapter,
}


@dataclass
class Pod:
    """What one engine does at a time that is counted."""

    running: list[tuple[float, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def advance(self, now: float) -> None:
        while self.running and self.running[0][0] <= now:
            end, _ = heapq.heappop(self.running)
            if self.waiting:
                heapq.heappush(self.running, (end + SECONDS, self.waiting.pop(0)))

    def begin(self, model: str, now: float) -> None:
        if len(self.running) < SLOTS:
            heapq.heappush(self.running, (now + SECONDS, model))
        else:
            self.waiting.append(model)

    def load(self) -> Load:
        adapters = tuple(sorted({model for _, model in self.running} - {"m"}))
        return Load(
            waiting=len(self.waiting),
            running=len(self.running),
            kv_cache=len(self.running) / SLOTS,
            adapters=adapters,
            queued_adapters=tuple(sorted({*self.waiting} - {"m"})),
        )


@dataclass(frozen=True)
class Spread:
    """How a workload was spread.

    Attributes:
        busiest: The busiest pod's share of the requests.
        met: Of the requests whose prefix or adapter some pod held: the part that met it.
        waited: The longest queue of a pod.
    """

    busiest: float
    met: float | None
    waited: int


Spreads = tuple[Spread, ...]
"""One for all pods, or one for the prefill and one for the decode pods."""


@dataclass
class Part:
    """Pods of which each request goes to one, and what has come to them so far."""

    pods: Mapping[str, Pod]
    picks: Counter[str] = field(default_factory=Counter)
    met: int = 0
    held: int = 0
    longest: int = 0

    def take(self, name: str, request: Request, now: float) -> None:
        self.picks[name] += 1
        if any(request.key in pod.seen for pod in self.pods.values()):
            self.held += 1
            self.met += request.key in self.pods[name].seen
        if request.key:
            self.pods[name].seen.add(request.key)
        self.pods[name].begin(request.model, now)
        self.longest = max(self.longest, len(self.pods[name].waiting))

    def spread(self) -> Spread:
        met = self.met / self.held if self.held else None
        return Spread(max(self.picks.values()) / REQUESTS, met, self.longest)


def spread(fleet: Fleet, picker: Chooser, workload: str, utilization: float) -> Spreads:
    parts = [Part({name: Pod() for name in names}) for names in _parts(fleet)]
    fleet.load()
    fleet.wait_scraped()
    between = SECONDS / (SLOTS * PODS * utilization)
    for number, request in enumerate(WORKLOADS[workload](Random(7))):
        now = number * between
        for part in parts:
            for name, pod in part.pods.items():
                pod.advance(now)
                fleet.engines[name].load = pod.load()
        fleet.wait_scraped()
        answer = picker.ask(request.prompt, request.model)
        chosen = [picker.pod(answer)]
        if len(parts) > 1:
            chosen.insert(0, picker.named(answer.headers[PREFILLER]))
        for part, name in zip(parts, chosen, strict=True):
            part.take(name, request, now)
    return tuple(part.spread() for part in parts)


def _parts(fleet: Fleet) -> list[list[str]]:
    names = sorted(fleet.engines)
    prefill = [name for name in names if "-prefill-" in name]
    return [part for part in (prefill, [n for n in names if n not in prefill]) if part]


CASES: dict[str, dict[str, Any]] = {
    "prefix-cache": {"strategy": "prefix-cache"},
    "prefix-cache alone": {"strategy": "prefix-cache", "scorers": {"prefix-cache": 100}},
    "queue-size": {"strategy": "queue-size"},
    "lora-affinity": {"strategy": "lora-affinity"},
    "lora-affinity alone": {"strategy": "lora-affinity", "scorers": {"lora": 100}},
    "pd-disaggregation": {"strategy": "pd-disaggregation"},
    "pd-disaggregation, prefix-cache alone": {
        "strategy": "pd-disaggregation",
        "scorers": {"prefix-cache": 100},
    },
}
DISAGGREGATION = "pd-disaggregation"
#: The rows of the page, and those of prefill and decode pods.
TABLE = [
    ("prefix-cache", "one system prompt"),
    ("prefix-cache alone", "one system prompt"),
    ("prefix-cache", "many conversations"),
    ("prefix-cache alone", "many conversations"),
    ("queue-size", "many conversations"),
    ("lora-affinity", "one hot adapter"),
    ("lora-affinity alone", "one hot adapter"),
    ("pd-disaggregation", "one system prompt"),
    ("pd-disaggregation", "many conversations"),
    ("pd-disaggregation, prefix-cache alone", "many conversations"),
]
Row = tuple[str, str]
"""A case and a workload."""


@picker_versions(CLAIM)
def test_default_strategies_spread_and_keep_prefix_hits(fleet: Fleet, version: str) -> None:
    found = _measured(fleet, version, paired=False)
    _balanced(found["prefix-cache", "one system prompt"])
    _balanced(found["lora-affinity", "one hot adapter"])
    conversations_ = "many conversations"
    _meets(found["prefix-cache", conversations_], found["prefix-cache alone", conversations_])


@NEEDS_LLM_D
@pytest.mark.proves(
    "pd-disaggregation uses all pods for one prompt and keeps prefix hits",
    needs="llm-d-epp is on PATH",
)
def test_prefill_and_decode_pods_share_and_still_meet_prefixes(
    pairing: Fleet,
) -> None:
    found = _measured(pairing, "llm-d", paired=True)
    _balanced(found[DISAGGREGATION, "one system prompt"])
    pure = found["pd-disaggregation, prefix-cache alone", "many conversations"]
    _meets(found[DISAGGREGATION, "many conversations"], pure)


def _measured(fleet: Fleet, version: str, *, paired: bool) -> dict[Row, Spreads]:
    """The spreads of all rows; printed, as docs/routing.md shows them."""
    found: dict[Row, Spreads] = {}
    for case, workload in TABLE:
        if case.startswith(DISAGGREGATION) == paired:
            with fleet.picker(version, **CASES[case]) as picker:
                found[case, workload] = spread(fleet, picker, workload, UTILIZATION)
            cells = "; ".join(
                f"{part.busiest:.0%}" + ("" if part.met is None else f", {part.met:.0%}")
                for part in found[case, workload]
            )
            print(f"{version} | `{case}` | {workload} | {cells}")
    return found


def _balanced(spreads: Spreads) -> None:
    assert all(part.busiest <= MOST / PODS for part in spreads), spreads


def _meets(ours: Spreads, pure: Spreads) -> None:
    for part, alone in zip(ours, pure, strict=True):
        assert part.met is not None
        assert alone.met is not None
        assert part.met >= LEAST * alone.met, (ours, pure)
