"""How a strategy spreads a workload: the table of docs/routing.md, on every supported picker.

Time is counted, not measured, so that a busy machine changes nothing: after each request the
picker reads the metrics that the pods then have.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from e2e.inputs import ROOT
from e2e.routers import PICKERS
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Chooser, Fleet

REQUESTS = 90
#: Requests of one pod at a time, and how long each takes; a third of the pods cannot do them all.
SLOTS, SECONDS = 4, 1.0
#: Of what three pods can do together.
UTILIZATION = 0.75
#: With a shared prompt: the busiest pod's share, in shares of a pod.
MOST = 1.5
#: With conversations: the part of the prefixes of the pure form that are met.
LEAST = 0.8

CLAIM = "defaults balance: one prompt or adapter of all requests uses all pods"

SYSTEM = "You are the assistant of a large company. Answer in whole sentences, and briefly. " * 20


@dataclass(frozen=True)
class Request:
    """One request of a workload; `key` names what its pod may hold already."""

    prompt: str
    key: str
    model: str = "m"


def shared_prompt(random: Random) -> Iterator[Request]:
    """One system prompt, and another question each time."""
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


def no_sharing(random: Random) -> Iterator[Request]:
    """Prompts that have nothing in common."""
    for _ in range(REQUESTS):
        yield Request(f"{random.random()} is new. " * 20, "")


def hot_adapter(random: Random) -> Iterator[Request]:
    """Four in five requests are for one LoRA adapter."""
    for _ in range(REQUESTS):
        model = "sql" if random.random() < 0.8 else random.choice(("chat", "poems"))
        yield Request(f"{random.random()} is new. " * 20, model, model)


WORKLOADS: dict[str, Callable[[Random], Iterator[Request]]] = {
    "one system prompt": shared_prompt,
    "many conversations": conversations,
    "no sharing": no_sharing,
    "one hot adapter": hot_adapter,
}


@dataclass
class Pod:
    """What one engine does at a time that is counted."""

    running: list[tuple[float, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def advance(self, now: float) -> None:
        """Ends what is over by now, and begins what waited for it."""
        while self.running and self.running[0][0] <= now:
            end, _ = heapq.heappop(self.running)
            if self.waiting:
                heapq.heappush(self.running, (end + SECONDS, self.waiting.pop(0)))

    def begin(self, model: str, now: float) -> None:
        """Takes a request in."""
        if len(self.running) < SLOTS:
            heapq.heappush(self.running, (now + SECONDS, model))
        else:
            self.waiting.append(model)

    def load(self) -> Load:
        """What its metrics say."""
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


def spread(fleet: Fleet, picker: Chooser, workload: str, utilization: float) -> Spread:
    """Sends a workload, one request after the other, and looks where it goes."""
    pods = {name: Pod() for name in fleet.engines}
    fleet.load()
    fleet.wait_scraped()
    between = SECONDS / (SLOTS * len(pods) * utilization)
    picks, met, held, longest = Counter[str](), 0, 0, 0
    for number, request in enumerate(WORKLOADS[workload](Random(7))):
        now = number * between
        for name, pod in pods.items():
            pod.advance(now)
            fleet.engines[name].load = pod.load()
        fleet.wait_scraped()
        name = picker.pick(request.prompt, request.model)
        picks[name] += 1
        if any(request.key in pod.seen for pod in pods.values()):
            held += 1
            met += request.key in pods[name].seen
        if request.key:
            pods[name].seen.add(request.key)
        pods[name].begin(request.model, now)
        longest = max(longest, len(pods[name].waiting))
    return Spread(max(picks.values()) / REQUESTS, met / held if held else None, longest)


CASES: dict[str, dict[str, Any]] = {
    "prefix-cache": {"strategy": "prefix-cache"},
    "prefix-cache alone": {"strategy": "prefix-cache", "scorers": {"prefix-cache": 100}},
    "lora-affinity": {"strategy": "lora-affinity"},
    "lora-affinity alone": {"strategy": "lora-affinity", "scorers": {"lora": 100}},
    "queue-size": {"strategy": "queue-size"},
    "kv-cache-utilization": {"strategy": "kv-cache-utilization"},
}


TABLE = [
    (case, workload)
    for case, workload in itertools.product(CASES, WORKLOADS)
    if ("lora" in case) == (workload == "one hot adapter")
]
#: What has a goal; the others only stand in the table.
COMPARED = [
    ("prefix-cache", "one system prompt"),
    ("prefix-cache", "many conversations"),
    ("prefix-cache alone", "many conversations"),
    ("lora-affinity", "one hot adapter"),
]


def write_column(text: str, version: str, found: Mapping[tuple[str, str], Spread]) -> str:
    """Returns a page with the figures of one picker in its table."""
    rows = {}
    for (case, workload), spread_ in found.items():
        met = "" if spread_.met is None else f", {spread_.met:.0%}"
        rows[f"`{case}`", workload] = f"{spread_.busiest:.0%}{met}"
    column = list(PICKERS).index(version) + 3
    lines = text.splitlines()
    for index, line in enumerate(lines):
        cells = [cell.strip() for cell in line.split("|")]
        cell = rows.get((cells[1], cells[2])) if len(cells) > column else None
        if cell is not None:
            cells[column] = cell
            lines[index] = " | ".join(cells).strip()
    return "\n".join(lines) + "\n"


BUILT = pytest.mark.proves(CLAIM)
#: The picker that no tool of ours builds.
LLM_D = pytest.mark.proves(f"{CLAIM}, with llm-d's picker", needs="llm-d-epp is on PATH")


@pytest.mark.parametrize(
    "version",
    [pytest.param(key, marks=BUILT if each.tool else LLM_D) for key, each in PICKERS.items()],
)
def test_defaults_spread_and_still_meet_prefixes(
    fleet: Fleet, version: str, request: pytest.FixtureRequest
) -> None:
    if not PICKERS[version].is_available():
        pytest.skip("llm-d-epp is not on PATH")
    found: dict[tuple[str, str], Spread] = {}
    writes = request.config.getoption("--write-balance")
    for case, workload in TABLE if writes else COMPARED:
        with fleet.picker(version, **CASES[case]) as picker:
            found[case, workload] = spread(fleet, picker, workload, UTILIZATION)
    if writes:
        page = ROOT / "docs" / "routing.md"
        text = page.read_text(encoding="utf-8")
        page.write_text(write_column(text, version, found), encoding="utf-8")
    share = 1 / len(fleet.engines)
    assert found["prefix-cache", "one system prompt"].busiest <= MOST * share
    assert found["lora-affinity", "one hot adapter"].busiest <= MOST * share
    pure, ours = (
        found[case, "many conversations"].met for case in ("prefix-cache alone", "prefix-cache")
    )
    assert pure is not None
    assert ours is not None
    assert ours >= LEAST * pure
