"""Replicas behind a real Envoy and endpoint picker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.pods import LEADERS
from e2e.serve.deploy import Deployed, apply_service, deploy_service
from e2e.serve.gateway import Gateway, list_endpoints
from e2e.serve.load import HIT_TOKENS, REQUESTS, complete, describe_latency, read_by_pod
from e2e.serve.services import MODEL, PROMPT, role, router
from e2e.serve.serving import Serving

pytestmark = pytest.mark.serve

ALIAS, ADAPTER = "chat", "poet"
ARGS = ("--served-model-name", ALIAS, MODEL, "--enable-lora", "--max-lora-rank", "8",
        "--lora-modules", f"{ADAPTER}=adapter")  # fmt: skip


@pytest.fixture(scope="module")
def routed(running: Serving) -> Iterator[Deployed]:
    with deploy_service(running, router(), role(replicas=2, args=ARGS)) as service:
        yield service


@pytest.mark.verifies("Two `prefix-cache` replicas serve through Envoy and the endpoint picker")
def test_replicas_serve_through_gateway(routed: Deployed) -> None:
    assert routed.send_request("the quick brown fox", ALIAS)["choices"][0]["text"]


@pytest.mark.verifies("Every served name and LoRA adapter answers")
def test_served_names_and_adapters_answer(routed: Deployed) -> None:
    answers = {name: routed.send_request(PROMPT, name) for name in (ALIAS, MODEL, ADAPTER)}
    assert {name: answer["model"] for name, answer in answers.items()} == {
        ALIAS: ALIAS, MODEL: ALIAS, ADAPTER: ADAPTER
    }  # fmt: skip
    texts = {name: answer["choices"][0]["text"] for name, answer in answers.items()}
    assert texts[ALIAS] == texts[MODEL] != texts[ADAPTER]


@pytest.mark.verifies("Requests with a common prefix reach the pod that caches it")
def test_common_prefix_reaches_caching_pod(routed: Deployed) -> None:
    shared = f"{PROMPT} said the user"
    routed.send_request(shared, ALIAS)
    before = read_by_pod(routed.pods(), REQUESTS)
    hits = read_by_pod(routed.pods(), HIT_TOKENS)
    for number in range(30):
        routed.send_request(f"{shared} {number}", ALIAS)
    after = read_by_pod(routed.pods(), REQUESTS)
    reached = {pod: count - before[pod] for pod, count in after.items()}
    assert sorted(reached.values()) == [0, 30], reached
    (chosen,) = (pod for pod, count in reached.items() if count)
    # Each prompt hits two full blocks.
    assert read_by_pod(routed.pods(), HIT_TOKENS)[chosen] - hits[chosen] >= 30 * 256


@pytest.mark.long
@pytest.mark.verifies("A pod deleted under load loses no request")
def test_deleted_pod_loses_no_request(routed: Deployed) -> None:
    pod, _ = routed.pods()
    name = pod["metadata"]["name"]
    with routed.load(ALIAS) as load:
        load.wait(30)
        before = len(load.answers)
        routed.running.cluster.delete("v1/Pod", name, routed.namespace)
        routed.running.wait_ready(routed.namespace, 2, LEADERS)
        load.wait(30)
    for phase, answers in (("before", load.answers[:before]), ("after", load.answers[before:])):
        print(f"{phase}: {describe_latency(answers)}")
    assert load.list_failed() == []


@pytest.mark.long
@pytest.mark.verifies(
    "`endpointPicker.enabled: false` moves the route to the Service without restarts"
)
def test_disabled_picker_spreads_over_service(routed: Deployed) -> None:
    before, cluster = routed.uids(), routed.running.cluster
    without_picker = router(None, endpointPicker={"enabled": False})
    apply_service(routed.running, routed.namespace, without_picker, role(replicas=2, args=ARGS))
    cluster.wait(lambda: len(list_endpoints(cluster, routed.namespace, "svc")) == 2, 60)
    gateway = Gateway(cluster, routed.namespace, "svc-httproute")
    try:
        counts = read_by_pod(routed.pods(), REQUESTS)
        for number in range(30):
            complete(gateway.url, ALIAS, f"{PROMPT} asked the user {number}", host=gateway.host)
        after = read_by_pod(routed.pods(), REQUESTS)
    finally:
        gateway.close()
    assert {pod: after[pod] - count for pod, count in counts.items()} == dict.fromkeys(counts, 15)
    assert routed.uids() == before


PRESET = "Qwen/Qwen3-0.6B"
#: Generated containers request four CPUs and 4 GiB of cache, which this node may lack.
SMALL = {"name": "vllm", "env": [{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"}],
         "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}  # fmt: skip


@pytest.mark.verifies("A role with only a model name and `accelerator: cpu` serves through Envoy")
def test_role_with_only_model_name_serves(running: Serving) -> None:
    role = {"name": "serve", "componentType": "worker", "accelerator": "cpu",
            "template": {"spec": {"containers": [SMALL]}}}  # fmt: skip
    with deploy_service(running, router(), role, model={"uri": f"hf://{PRESET}"}) as service:
        (pod,) = service.pods()
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "vllm/vllm-openai-cpu:v0.32.0-x86_64"
        assert container["command"] == ["vllm", "serve"]
        assert container["args"] == [PRESET, "--max-model-len", "auto", "--shutdown-timeout", "300"]
        assert container["startupProbe"]
        assert service.send_request("the quick brown fox", PRESET)["choices"][0]["text"]
