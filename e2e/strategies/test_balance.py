"""How a strategy spreads a workload: the table of docs/routing.md, on every supported picker.

Time is counted, not measured, so that a busy machine changes nothing: after each request the
picker reads the metrics that the pods then have.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from e2e.routers import picker_versions
from e2e.strategies.engine import Load
from e2e.strategies.fleet import PLAIN, Chooser, Fleet

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


def short_chats(random: Random) -> Iterator[Request]:
    """Fifteen chats of six turns, interleaved, that are shorter than a block of the prefix index.

    Every turn starts with the time, as some system prompts do.
    """
    turns = [index for index in range(REQUESTS // 6) for _ in range(6)]
    random.shuffle(turns)
    for index in turns:
        yield Request(f"It is {random.random()}. Chat {index}: next question?", str(index))


def hot_adapter(random: Random) -> Iterator[Request]:
    for _ in range(REQUESTS):
        model = "sql" if random.random() < 0.8 else random.choice(("chat", "poems"))
        yield Request(f"{random.random()} is new. " * 20, model, model)


WORKLOADS: dict[str, Callable[[Random], Iterator[Request]]] = {
    "one system prompt": shared_prompt,
    "many conversations": conversations,
    "short chats": short_chats,
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
    """

    busiest: float
    met: float


def spread(
    fleet: Fleet,
    picker: Chooser,
    workload: str,
    headers: Callable[[str], dict[str, str] | None] = lambda _: None,
) -> Spread:
    pods = {name: Pod() for name in fleet.engines}
    fleet.load()
    fleet.wait_scraped()
    picks: Counter[str] = Counter()
    met = held = 0
    for number, request in enumerate(WORKLOADS[workload](Random(7))):
        now = number * SECONDS / (SLOTS * PODS * UTILIZATION)
        for name, pod in pods.items():
            pod.advance(now)
            fleet.engines[name].load = pod.load()
        fleet.wait_scraped()
        chosen = picker.pod(picker.ask(request.prompt, request.model, headers(request.key)))
        picks[chosen] += 1
        if any(request.key in pod.seen for pod in pods.values()):
            held += 1
            met += request.key in pods[chosen].seen
        pods[chosen].seen.add(request.key)
        pods[chosen].begin(request.model, now)
    return Spread(max(picks.values()) / REQUESTS, met / held)


CASES: dict[str, dict[str, Any]] = {
    "prefix-cache": {"strategy": "prefix-cache"},
    "prefix-cache alone": {"strategy": "prefix-cache", "scorers": {"prefix-cache": 100}},
    "queue-size": {"strategy": "queue-size"},
    "lora-affinity": {"strategy": "lora-affinity"},
    "lora-affinity alone": {"strategy": "lora-affinity", "scorers": {"lora": 100}},
}
#: The rows of the page: a case and a workload.
TABLE = [
    ("prefix-cache", "one system prompt"),
    ("prefix-cache alone", "one system prompt"),
    ("prefix-cache", "many conversations"),
    ("prefix-cache alone", "many conversations"),
    ("queue-size", "many conversations"),
    ("lora-affinity", "one hot adapter"),
    ("lora-affinity alone", "one hot adapter"),
]


@picker_versions(CLAIM)
def test_default_strategies_spread_and_keep_prefix_hits(fleet: Fleet, version: str) -> None:
    found = {}
    for case, workload in TABLE:
        with fleet.picker(version, **CASES[case]) as picker:
            row = found[case, workload] = spread(fleet, picker, workload)
        print(f"{version} | `{case}` | {workload} | {row.busiest:.0%}, {row.met:.0%}")
    for row in (found[TABLE[0]], found["lora-affinity", "one hot adapter"]):
        assert row.busiest <= MOST / PODS, row
    ours, pure = (found[name, "many conversations"] for name in CASES if name.startswith("prefix"))
    assert ours.met >= LEAST * pure.met, (ours, pure)


SESSIONS: dict[str, dict[str, Any]] = {
    "prefix-cache": {"strategy": "prefix-cache"},
    "session-affinity": {"strategy": "session-affinity"},
    "session-affinity by cookie": {
        "strategy": "session-affinity",
        "endpointPicker": {**PLAIN, "session": {"cookie": "chat"}},
    },
}


def name_session(key: str) -> dict[str, str]:
    return {"x-session-id": key, "cookie": f"theme=dark; chat={key}"}


@picker_versions("Session affinity keeps chats on their pod that have no common prefix", "llm-d")
def test_sessions_keep_their_pods(fleet: Fleet, version: str) -> None:
    found = {}
    for case, fields in SESSIONS.items():
        for workload in ("many conversations", "short chats"):
            with fleet.picker(version, **fields) as picker:
                row = found[case, workload] = spread(fleet, picker, workload, name_session)
            print(f"{version} | `{case}` | {workload} | {row.busiest:.0%}, {row.met:.0%}")
    for case in list(SESSIONS)[1:]:
        row = found[case, "short chats"]
        assert row.met >= 0.8, (case, row)
        assert row.busiest <= MOST / PODS, (case, row)
        # Without a common prefix another strategy meets the pod of a session by chance.
        assert row.met > found["prefix-cache", "short chats"].met + 0.1
