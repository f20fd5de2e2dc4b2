"""Load balancing of workloads by strategies (docs/routing.md).

Time is simulated, so that a busy machine changes nothing: the picker scrapes the pods after each
request.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from e2e.routers import picker_versions
from e2e.strategies.engine import Load
from e2e.strategies.fleet import PLAIN, Fleet, PickerClient

REQUESTS = 90
PODS = 3
#: Concurrent requests of a pod, and seconds that each takes. One pod cannot serve all requests.
SLOTS, SECONDS = 4, 1.0
#: Share of the capacity of all pods that the requests use.
UTILIZATION = 0.75
#: With a shared prompt: maximum share of the busiest pod, relative to an even share.
MAX_SHARE = 1.5
#: With conversations: minimum prefix hits relative to those of a single scorer.
MIN_HITS = 0.8

pytestmark = pytest.mark.upstream

CLAIM = "Default strategies use all pods even if all requests share a prompt or adapter"

SYSTEM = "You are the assistant of a large company. Answer in whole sentences, and briefly. " * 20


@dataclass(frozen=True)
class Request:
    """A request of a workload; `key` is the prefix or adapter that a pod can have cached."""

    prompt: str
    key: str
    model: str = "m"


def generate_shared_prompt(random: Random) -> Iterator[Request]:
    for number in range(REQUESTS):
        yield Request(f"{SYSTEM}{number}: {random.random()}", "system")


def generate_conversations(random: Random) -> Iterator[Request]:
    """Yield requests of fifteen interleaved conversations with six turns each."""
    count = REQUESTS // 6
    turns = [index for index in range(count) for _ in range(6)]
    random.shuffle(turns)
    histories = {
        index: f"Conversation {index} about {random.random()}. " * 8 for index in range(count)
    }
    for index in turns:
        yield Request(histories[index], str(index))
        histories[index] += f"The answer was {random.random()}, and the next question. " * 6


def generate_short_chats(random: Random) -> Iterator[Request]:
    """Yield requests of fifteen interleaved chats, shorter than a block of the prefix index.

    Each turn starts with a new text, such as the time in some system prompts.
    """
    turns = [index for index in range(REQUESTS // 6) for _ in range(6)]
    random.shuffle(turns)
    for index in turns:
        yield Request(f"It is {random.random()}. Chat {index}: next question?", str(index))


def generate_hot_adapter(random: Random) -> Iterator[Request]:
    for _ in range(REQUESTS):
        model = "sql" if random.random() < 0.8 else random.choice(("chat", "poems"))
        yield Request(f"{random.random()} is new. " * 20, model, model)


WORKLOADS: dict[str, Callable[[Random], Iterator[Request]]] = {
    "one system prompt": generate_shared_prompt,
    "many conversations": generate_conversations,
    "short chats": generate_short_chats,
    "one hot adapter": generate_hot_adapter,
}


@dataclass
class Pod:
    """Requests of an engine in simulated time."""

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
class Distribution:
    """Distribution of a workload.

    Attributes:
        busiest_share: The busiest pod's share of the requests.
        hit_rate: Share of cache hits among requests whose prefix or adapter a pod had cached.
    """

    busiest_share: float
    hit_rate: float

    def __str__(self) -> str:
        return f"{self.busiest_share:.0%}, {self.hit_rate:.0%}"


def send_workload(
    fleet: Fleet,
    pickers: Sequence[PickerClient],
    workload: str,
    headers: Callable[[str], dict[str, str] | None] = lambda _: None,
) -> Distribution:
    """Send a workload, each request to one of the endpoint pickers at random."""
    gateway = Random(11)
    pods = {name: Pod() for name in fleet.engines}
    fleet.load()
    fleet.wait_scraped()
    picks: Counter[str] = Counter()
    hits = cached = 0
    for number, request in enumerate(WORKLOADS[workload](Random(7))):
        now = number * SECONDS / (SLOTS * PODS * UTILIZATION)
        for name, pod in pods.items():
            pod.advance(now)
            fleet.engines[name].load = pod.load()
        fleet.wait_scraped()
        picker = gateway.choice(pickers)
        chosen = picker.get_pod(
            picker.send_request(request.prompt, request.model, headers(request.key))
        )
        picks[chosen] += 1
        if any(request.key in pod.seen for pod in pods.values()):
            cached += 1
            hits += request.key in pods[chosen].seen
        pods[chosen].seen.add(request.key)
        pods[chosen].begin(request.model, now)
    return Distribution(max(picks.values()) / REQUESTS, hits / cached)


CASES: dict[str, dict[str, Any]] = {
    "prefix-cache": {"strategy": "prefix-cache"},
    "prefix-cache alone": {"strategy": "prefix-cache", "scorers": {"prefix-cache": 100}},
    "queue-size": {"strategy": "queue-size"},
    "lora-affinity": {"strategy": "lora-affinity"},
    "lora-affinity alone": {"strategy": "lora-affinity", "scorers": {"lora": 100}},
}
#: Case and workload of each row of the page.
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
    rows = {}
    for case, workload in TABLE:
        with fleet.run_picker(version, **CASES[case]) as picker:
            row = rows[case, workload] = send_workload(fleet, [picker], workload)
        print(f"{version} | `{case}` | {workload} | {row}")
    for row in (rows[TABLE[0]], rows["lora-affinity", "one hot adapter"]):
        assert row.busiest_share <= MAX_SHARE / PODS, row
    names = [name for name in CASES if name.startswith("prefix")]
    default, single = (rows[name, "many conversations"] for name in names)
    assert default.hit_rate >= MIN_HITS * single.hit_rate, (default, single)


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


@picker_versions("Session affinity keeps chats without a common prefix on their pods", "llm-d")
def test_sessions_keep_their_pods(fleet: Fleet, version: str) -> None:
    rows = {}
    for case, fields in SESSIONS.items():
        for workload in ("many conversations", "short chats"):
            with fleet.run_picker(version, **fields) as picker:
                row = rows[case, workload] = send_workload(fleet, [picker], workload, name_session)
            print(f"{version} | `{case}` | {workload} | {row}")
    for case in list(SESSIONS)[1:]:
        row = rows[case, "short chats"]
        assert row.hit_rate >= 0.8, (case, row)
        assert row.busiest_share <= MAX_SHARE / PODS, (case, row)
        # Without a common prefix, other strategies hit the pod of a session only by chance.
        assert row.hit_rate > rows["prefix-cache", "short chats"].hit_rate + 0.1


#: Endpoint picker's strategy and workload of each row about several endpoint pickers.
SHARED = [
    ("prefix-cache", "one system prompt"),
    ("prefix-cache", "many conversations"),
    ("session-affinity", "short chats"),
]


@picker_versions("Two serving endpoint pickers keep most cache hits of one")
def test_two_pickers_keep_most_cache_hits(fleet: Fleet, version: str) -> None:
    for case, workload in SHARED if version == "llm-d" else SHARED[:2]:
        rows = []
        for count in (1, 2):
            with ExitStack() as stack:
                pickers = [
                    stack.enter_context(fleet.run_picker(version, **SESSIONS[case]))
                    for _ in range(count)
                ]
                rows.append(send_workload(fleet, pickers, workload, name_session))
            print(f"{version} | {count} | `{case}` | {workload} | {rows[-1]}")
        single, two = rows
        assert two.busiest_share <= MAX_SHARE / PODS, rows
        assert two.hit_rate >= MIN_HITS * single.hit_rate, rows
