"""Pods that each strategy chooses, with generated configuration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object, ProgramFailedError
from e2e.routers import IMAGES, find_object, make_picker, picker_versions
from e2e.strategies.engine import Engine, Load
from e2e.strategies.fleet import Fleet, PickerClient, make_loads

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))
PICKS = 60
"""The probability that so many random choices among three pods miss one is 10^-10."""

STORY = "You are a helpful assistant of a large company. Answer briefly, in whole sentences. "


@pytest.mark.verifies("prefix-cache: requests with a common prefix go to one pod")
@VERSIONS
def test_prefix_cache_keeps_a_prefix_on_its_pod(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="prefix-cache") as picker:
        fleet.wait_scraped()
        assert picker.pick_many(PICKS).keys() == fleet.engines.keys()
        pod_by_prompt = {}
        for customer in ("A", "B", "C", "D"):
            prompt = f"Customer {customer}: {STORY * 3}"
            pod_by_prompt[prompt] = picker.cache_prompt(prompt)
        for prompt, pod_name in pod_by_prompt.items():
            assert picker.pick_many(5, prompt) == {pod_name: 5}
            longer = f"{prompt}And now something else: {'what is the weather? ' * 4}"
            assert picker.pick(longer) == pod_name


@pytest.mark.verifies("queue-size: requests go to the pod with the shortest queue")
@VERSIONS
def test_queue_size_finds_the_idle_pod(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="queue-size") as picker:
        for order in itertools.permutations(sorted(fleet.engines)):
            # All other metrics favor the other pods.
            fleet.load(
                make_loads(order, waiting=(1, 7, 30), running=(9, 1, 0), kv_cache=(0.9, 0.5, 0))
            )
            fleet.wait_scraped()
            assert picker.pick_many(8) == {order[0]: 8}
        fleet.load(make_loads(sorted(fleet.engines), waiting=(2, 2, 3)))
        fleet.wait_scraped()
        assert picker.pick_many(PICKS).keys() == set(sorted(fleet.engines)[:2])


@pytest.mark.verifies("kv-cache-utilization: requests go to the pod with the most free KV cache")
@VERSIONS
def test_kv_cache_finds_the_emptiest_pod(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="kv-cache-utilization") as picker:
        for order in itertools.permutations(sorted(fleet.engines)):
            fleet.load(make_loads(order, kv_cache=(0.31, 0.34, 0.97), waiting=(9, 1, 0)))
            fleet.wait_scraped()
            assert picker.pick_many(8) == {order[0]: 8}


@pytest.mark.verifies("lora-affinity: requests go to a pod that has the adapter loaded")
@VERSIONS
def test_lora_affinity_finds_the_adapter(fleet: Fleet, version: str) -> None:
    with fleet.run_picker(version, strategy="lora-affinity", scorers={"lora": 100}) as picker:
        for sql, chat, roomy in itertools.permutations(sorted(fleet.engines)):
            fleet.load(
                {
                    sql: Load(adapters=("sql", "math"), waiting=30, kv_cache=0.9),
                    chat: Load(adapters=("chat",), queued_adapters=("poems",)),
                    roomy: Load(adapters=("tales",)),
                }
            )
            fleet.wait_scraped()
            assert picker.pick_many(5, model="sql") == {sql: 5}
            assert picker.pick_many(5, model="math") == {sql: 5}
            assert picker.pick_many(5, model="chat") == {chat: 5}
            assert picker.pick_many(5, model="law") == {roomy: 5}


@pytest.mark.verifies("Prefix blocks have the engine's --block-size, and at least 64 tokens")
@pytest.mark.parametrize(("arguments", "characters"), [([], 256), (["--block-size", "128"], 512)])
@VERSIONS
def test_prefix_blocks_have_at_least_64_tokens(
    fleet: Fleet, version: str, arguments: list[str], characters: int
) -> None:
    def with_arguments(manifest: Object) -> Object:
        (container,) = manifest["spec"]["roles"][1]["template"]["spec"]["containers"]
        container["args"] += arguments
        return manifest

    with fleet.run_picker(version, with_arguments, strategy="prefix-cache") as picker:
        fleet.wait_scraped()
        assert is_sticky(picker, "y" * characters)
        assert not is_sticky(picker, "z" * (characters - 1))


@picker_versions("Conversations behind a system prompt of 12,000 tokens keep their pods")
def test_conversations_behind_a_long_system_prompt_keep_their_pods(
    fleet: Fleet, version: str
) -> None:
    system = STORY * 600
    with fleet.run_picker(version, strategy="prefix-cache") as picker:
        pods = sorted(fleet.engines)
        for idle in pods:
            # Queue lengths send the first request of each conversation to a different pod.
            fleet.load({idle: Load()}, default=Load(waiting=50, kv_cache=0.9))
            fleet.wait_scraped()
            assert picker.cache_prompt(f"{system}{idle * 100}") == idle
        fleet.load()
        fleet.wait_scraped()
        for pod in pods:
            assert picker.pick_many(5, f"{system}{pod * 100}. And then?") == {pod: 5}


def is_sticky(picker: PickerClient, prompt: str) -> bool:
    pod_name = picker.cache_prompt(prompt)
    return picker.pick_many(20, prompt) == {pod_name: 20}


HOT = "Everybody asks this today: " * 10
RANKS = 3


class RankedFleet(Fleet):
    """A fleet with an engine on each port of the pool, per pod."""

    def deploy(self, *names: str, pods: int) -> None:
        super().deploy(*names, pods=pods)
        for name, first in list(self.engines.items()):
            address, _, port = first.endpoint.rpartition(":")
            for rank in range(1, RANKS):
                engine = Engine(address, int(port) + rank)
                self.engines[f"{name}/{rank}"] = self._stack.enter_context(engine)


@pytest.fixture
def ranked(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    with RankedFleet(cluster, namespace, _use_ranks) as fleet:
        fleet.deploy("svc", pods=2)
        yield fleet


@picker_versions("Pickers choose among a pod's data parallel ranks by load")
def test_each_rank_is_chosen_by_its_load(ranked: Fleet, version: str) -> None:
    objects = ranked.apply_router(version)
    pool = find_object(objects, "InferencePool")
    assert len(pool["spec"]["targetPorts"]) == RANKS, "the API server dropped ports"
    with ranked.connect(version, objects) as picker:
        ranked.wait_scraped()
        assert picker.pick_many(120).keys() == ranked.engines.keys(), "not all ranks got requests"
        pod_name = picker.cache_prompt(HOT)
        assert picker.pick_many(8, HOT) == {pod_name: 8}, "a prefix left its rank"
        for idle in sorted(ranked.engines):
            loads = {name: Load(waiting=30, kv_cache=0.9) for name in ranked.engines}
            ranked.load({**loads, idle: Load()})
            ranked.wait_scraped()
            assert picker.pick_many(8) == {idle: 8}, "not the idle rank"


def _use_ranks(manifest: Object) -> Object:
    (_, role) = manifest["spec"]["roles"]
    role["parallelism"] = {"data": RANKS, "portPerRank": True}
    (container,) = role["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.32.0"
    container["args"] = ["m"]
    return manifest


@pytest.mark.verifies("A picker serves the certificate of the named Secret")
@VERSIONS
def test_pickers_serve_with_a_certificate(fleet: Fleet, version: str) -> None:
    objects = fleet.apply_router(version, endpointPicker={"tls": {"secretName": "picker-tls"}})
    (container,) = find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    place = container["args"].index("--cert-path=/certificate")
    # The Secret's files, at their path on this machine.
    certificates = fleet.cluster.directory / "certificates"
    container["args"][place] = f"--cert-path={certificates}"
    authority = (certificates / "ca.crt").read_bytes()
    with fleet.connect(version, objects, authority) as picker:
        fleet.wait_scraped()
        assert picker.pick_many(30).keys() <= fleet.engines.keys()


@pytest.mark.verifies("Errors about unknown plugins match what the picker reports when it exits")
@VERSIONS
def test_unknown_plugin_ends_picker(fleet: Fleet, version: str) -> None:
    objects = fleet.apply_router(version, strategy="queue-size")
    data = find_object(objects, "ConfigMap")["data"]
    (key,) = data
    data[key] = data[key].replace("queue-scorer", "queue-scorrer")
    with (
        make_picker(fleet.cluster, version, objects) as picker,
        pytest.raises(ProgramFailedError, match=r"exited with [1-9](.|\n)*queue-scorrer"),
    ):
        picker.wait_serving()
    image = {"image": IMAGES[version]}
    manifest = fleet.make_manifest(endpointPicker=image, endpointPickerConfig=data[key])
    findings = [str(text) for text in inputs.build_plan(manifest).findings]
    (finding,) = [text for text in findings if "queue-scorrer" in text]
    assert "endpointPickerConfig.plugins[0].type" in finding
    assert "would exit" in finding


LEADERS = ("svc-inference-0-0", "svc-inference-1-0")
OTHERS = (
    *("svc-inference-0-0-1", "svc-inference-1-0-1"),
    *("svc-2-inference-0-0", "svc-2-inference-0-0-1"),
    *("svc-2-inference-1-0", "svc-2-inference-1-0-1"),
)


@pytest.fixture
def groups(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    with Fleet(cluster, namespace, _use_two_nodes) as fleet:
        fleet.deploy("svc", "svc-2", pods=8)
        assert fleet.engines.keys() == {*LEADERS, *OTHERS}
        yield fleet


@pytest.mark.verifies("Pickers choose only ready leaders of the service")
@VERSIONS
def test_only_ready_leaders_are_chosen(groups: Fleet, version: str) -> None:
    groups.load(dict.fromkeys(LEADERS, Load(waiting=30)))  # All other pods are idle.
    with groups.run_picker(version, strategy="queue-size") as picker:
        groups.wait_scraped(LEADERS)
        assert picker.pick_many(40).keys() == set(LEADERS)
        assert pick_without_body(picker, 40) == set(LEADERS)
        assert not any(groups.engines[name].scrapes for name in OTHERS), "other pods were scraped"

        first, second = LEADERS
        _set_ready(groups, first, ready=False)
        groups.cluster.wait(lambda: _find_chosen_pods(picker) == {second}, message=f"only {second}")
        _set_ready(groups, second, ready=False)
        groups.cluster.wait(lambda: not _find_chosen_pods(picker), message="no pod")
        answer = picker.send_request()
        assert (answer.status, answer.endpoint) == (503, None)
        assert b"failed to find" in answer.body
        assert picker.processor.send_request(None, "/v1/models").status == 500

        _set_ready(groups, first, ready=True)
        groups.cluster.wait(lambda: _find_chosen_pods(picker) == {first}, message=f"only {first}")


def pick_without_body(picker: PickerClient, count: int) -> set[str]:
    return {picker.get_pod(picker.processor.send_request(None, "/v1/models")) for _ in range(count)}


def _find_chosen_pods(picker: PickerClient) -> set[str]:
    answers = [picker.send_request() for _ in range(12)]
    return {picker.get_pod(answer) for answer in answers if answer.status is None}


def _set_ready(fleet: Fleet, name: str, *, ready: bool) -> None:
    """Set a pod's condition Ready, as the kubelet does."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    fleet.cluster.patch(
        "v1/Pod",
        name,
        {"status": {"conditions": [condition]}},
        fleet.namespace,
        patch_type="strategic",
        subresource="status",
    )


def _use_two_nodes(manifest: Object) -> Object:
    manifest["spec"]["roles"][1]["multinode"] = {"nodeCount": 2}
    manifest["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    return manifest
