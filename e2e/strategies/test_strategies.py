"""Each strategy sends requests where it promises to, with what the library generates for it."""

from __future__ import annotations

import itertools

import pytest

from e2e.harness import Object
from e2e.routers import IMAGES, only
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Chooser, Fleet, busy

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))
KV_FLAG = "--kv-cache-usage-percentage-metric"
MANY = 60
"""So many random choices among three pods leave one out once in 10^10 times."""

STORY = "You are a helpful assistant of a large company. Answer briefly, in whole sentences. "


@pytest.mark.proves("prefix-cache: requests with a common prefix go to one pod")
@VERSIONS
def test_prefix_cache_keeps_a_prefix_on_its_pod(fleet: Fleet, version: str) -> None:
    with fleet.picker(version, strategy="prefix-cache") as picker:
        fleet.wait_scraped()
        assert picker.picks(MANY).keys() == fleet.engines.keys(), "new prompts go anywhere"
        homes = {}
        for customer in ("A", "B", "C", "D"):
            prompt = f"Customer {customer}: {STORY * 3}"
            homes[prompt] = picker.warm(prompt)
        for prompt, home in homes.items():
            assert picker.picks(5, prompt) == {home: 5}
            longer = f"{prompt}And now something else: {'what is the weather? ' * 4}"
            assert picker.pick(longer) == home


@pytest.mark.proves("queue-size: requests go to the pod with the shortest queue")
@VERSIONS
def test_queue_size_finds_the_idle_pod(fleet: Fleet, version: str) -> None:
    with fleet.picker(version, strategy="queue-size") as picker:
        for order in itertools.permutations(sorted(fleet.engines)):
            # What else there is to know speaks for the others.
            fleet.load(busy(order, waiting=(1, 7, 30), running=(9, 1, 0), kv_cache=(0.9, 0.5, 0)))
            fleet.wait_scraped()
            assert picker.picks(8) == {order[0]: 8}
        fleet.load(busy(sorted(fleet.engines), waiting=(2, 2, 3)))
        fleet.wait_scraped()
        assert picker.picks(MANY).keys() == set(sorted(fleet.engines)[:2]), "equals share"


@pytest.mark.proves("kv-cache-utilization: requests go to the pod with the most free KV cache")
@VERSIONS
def test_kv_cache_finds_the_emptiest_pod(fleet: Fleet, version: str) -> None:
    with fleet.picker(version, strategy="kv-cache-utilization") as picker:
        for order in itertools.permutations(sorted(fleet.engines)):
            fleet.load(busy(order, kv_cache=(0.31, 0.34, 0.97), waiting=(9, 1, 0)))
            fleet.wait_scraped()
            assert picker.picks(8) == {order[0]: 8}


@pytest.mark.proves("Picker v1.2.1 needs the metric flag to read vLLM's KV cache usage")
def test_picker_needs_metric_flag_for_kv_cache(fleet: Fleet) -> None:
    objects = fleet.routing("1.2", strategy="kv-cache-utilization")
    args = _arguments(objects)
    (flag,) = [argument for argument in args if argument.startswith(KV_FLAG)]
    args.remove(flag)
    fleet.load(busy(sorted(fleet.engines), kv_cache=(0.1, 0.5, 0.9)))
    with fleet.run("1.2", objects) as picker:
        fleet.wait_scraped()
        assert picker.picks(MANY).keys() == fleet.engines.keys()


@pytest.mark.proves("lora-affinity: requests go to a pod that has the adapter loaded")
@VERSIONS
def test_lora_affinity_finds_the_adapter(fleet: Fleet, version: str) -> None:
    with fleet.picker(version, strategy="lora-affinity", scorers={"lora": 100}) as picker:
        for sql, chat, roomy in itertools.permutations(sorted(fleet.engines)):
            fleet.load(
                {
                    sql: Load(adapters=("sql", "math"), waiting=30, kv_cache=0.9),
                    chat: Load(adapters=("chat",), queued_adapters=("poems",)),
                    roomy: Load(adapters=("tales",)),
                }
            )
            fleet.wait_scraped()
            assert picker.picks(5, model="sql") == {sql: 5}
            assert picker.picks(5, model="math") == {sql: 5}
            assert picker.picks(5, model="chat") == {chat: 5}
            assert picker.picks(5, model="law") == {roomy: 5}, "where there is room for one more"


@pytest.mark.proves("Prefix blocks have the engine's --block-size, and at least 64 tokens")
@pytest.mark.parametrize(("arguments", "characters"), [([], 256), (["--block-size", "128"], 512)])
@VERSIONS
def test_prefix_blocks_have_at_least_64_tokens(
    fleet: Fleet, version: str, arguments: list[str], characters: int
) -> None:
    def with_arguments(manifest: Object) -> Object:
        (container,) = manifest["spec"]["roles"][1]["template"]["spec"]["containers"]
        container["args"] += arguments
        return manifest

    with fleet.picker(version, with_arguments, strategy="prefix-cache") as picker:
        fleet.wait_scraped()
        assert sticks(picker, "y" * characters)
        assert not sticks(picker, "z" * (characters - 1))


def sticks(picker: Chooser, prompt: str) -> bool:
    home = picker.warm(prompt)
    return picker.picks(20, prompt) == {home: 20}


def _arguments(objects: list[Object]) -> list[str]:
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return arguments
