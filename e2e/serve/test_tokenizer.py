"""An imported KServe service whose endpoint picker has a tokenizer and the engines' KV events."""

from __future__ import annotations

import shlex
import time
from functools import partial
from typing import Any

import pytest

from e2e.harness import Object
from e2e.harness.resources import read_objects
from e2e.serve.deploy import Deployed, deploy_manifest
from e2e.serve.engine import Models
from e2e.serve.hub import PORT, Hub
from e2e.serve.load import HIT_TOKENS, REQUESTS, complete, read_by_pod, read_metrics, sum_metric
from e2e.serve.sandbox import ADDRESS
from e2e.serve.services import IMAGE, PROMPT, needs, render_objects, role, service
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long, needs("llm-d-epp")]

NAME, REPOSITORY = "chat", "Qwen/Qwen3-8B"
CONVERSATIONS, TURNS = 4, 4
ENGINE_BLOCK, PICKER_BLOCK = 128, 64
"""Tokens of a block: vLLM's default on CPUs, and a size that the picker does not share with it."""

PICKER_METRICS = 9090
ADMISSIONS = "llm_d_router_epp_kv_cache_index_admissions_total"
LOOKUP_HITS = "llm_d_router_epp_kv_cache_index_lookup_hits_total"

_PARAMETERS: Object = {
    "tokenProcessorConfig": {"blockSizeTokens": PICKER_BLOCK},
    "indexerConfig": {"kvBlockIndexConfig": {"enableMetrics": True}},
}
PLUGINS: dict[str, list[Object]] = {
    # The picker connects to the engines.
    "tcp://*:5557": [
        {"type": "token-producer"},
        {"type": "precise-prefix-cache-producer", "parameters": _PARAMETERS},
        {"type": "prefix-cache-scorer",
         "parameters": {"prefixMatchInfoProducerName": "precise-prefix-cache-producer"}},
    ],
    # The engines connect to the picker, and find their addresses in the events' topics.
    "tcp://svc-epp:5557": [
        {"type": "precise-prefix-cache-scorer",
         "parameters": {**_PARAMETERS, "kvEventsConfig": {"zmqEndpoint": "tcp://*:5557"}}},
    ],
}  # fmt: skip


def make_kserve_service(namespace: str, endpoint: str) -> Object:
    """Return a manifest; its engines have the argument that the library generates for KV events."""
    engine = role(args=("--served-model-name", NAME), kvEvents={"endpoint": endpoint})
    (lws, *_) = render_objects(service(namespace, engine))
    (generated,) = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    plugins = PLUGINS[endpoint]
    others = ("single-profile-handler", "queue-scorer", "max-score-picker")
    weights = {plugins[-1]["type"]: 3, "queue-scorer": 1, "max-score-picker": 1}
    (manifest,) = read_objects(
        "LLMInferenceService with a tokenizer",
        namespace=namespace,
        name=NAME,
        repository=REPOSITORY,
        image=IMAGE,
        # KServe's preset evaluates them in a shell.
        args=["--max-model-len", "2048", *map(shlex.quote, generated["args"][-2:])],
        env=generated["env"],
        resources=generated["resources"],
        plugins=[*plugins, *({"type": name} for name in others)],
        weighted=[{"pluginRef": name, "weight": weight} for name, weight in weights.items()],
    )
    return manifest


@pytest.mark.parametrize("endpoint", PLUGINS, ids=["picker-connects", "engines-connect"])
@pytest.mark.verifies(
    "Imported from KServe with a tokenizer, llm-d's picker finds prefixes by the engines' KV events"
)
def test_conversation_returns_to_its_prefix(running: Serving, endpoint: str) -> None:
    namespace = running.cluster.new_namespace()
    manifest = make_kserve_service(namespace, endpoint)
    with Hub(ADDRESS, REPOSITORY, Models().model, PORT), deploy_manifest(running, manifest) as chat:
        (picker,), pods = chat.pods("app=svc-epp"), chat.pods()
        assert len(pods) == 2
        for pod in pods:
            gets_events = partial(_gets_events, picker, pod)
            running.cluster.wait(gets_events, 120, lambda: running.read_logs(picker))
        found = sum_metric(read_metrics(picker, PICKER_METRICS), LOOKUP_HITS)
        reused = sum(read_by_pod(pods, HIT_TOKENS).values())
        texts = [f"{number} {PROMPT}" for number in range(CONVERSATIONS)]
        visited: list[list[str]] = [[] for _ in texts]
        blocks = 0
        for turn in range(TURNS):
            for number, text in enumerate(texts):
                pod_name, answer = _send_request(chat, pods, text)
                visited[number].append(pod_name)
                blocks += answer["usage"]["prompt_tokens"] // ENGINE_BLOCK * (turn < TURNS - 1)
                texts[number] += f"{answer['choices'][0]['text']} {turn}: {PROMPT}"
        found = sum_metric(read_metrics(picker, PICKER_METRICS), LOOKUP_HITS) - found
        reused = sum(read_by_pod(pods, HIT_TOKENS).values()) - reused
        print(f"{visited}: {blocks} blocks, picker found {found}, engines reused {reused} tokens")
        assert [len(set(names)) for names in visited] == [1] * CONVERSATIONS
        assert found * PICKER_BLOCK >= blocks * ENGINE_BLOCK > 0
        assert reused >= blocks * ENGINE_BLOCK


def _gets_events(picker: Object, pod: Object) -> bool:
    """Return whether the picker receives events of a request that only this pod gets."""
    before = sum_metric(read_metrics(picker, PICKER_METRICS), ADMISSIONS)
    complete(f"http://{pod['status']['podIP']}:8000", NAME, f"{time.monotonic()} {PROMPT}")
    time.sleep(1)
    return sum_metric(read_metrics(picker, PICKER_METRICS), ADMISSIONS) > before


def _send_request(chat: Deployed, pods: list[Object], text: str) -> tuple[str, Any]:
    """Return the name of the pod that answers, and its answer."""
    before = read_by_pod(pods, REQUESTS)
    answer = chat.send_request(text, NAME)

    def find_served() -> list[str]:
        return [pod for pod, count in read_by_pod(pods, REQUESTS).items() if count > before[pod]]

    (pod_name,) = chat.running.cluster.wait(find_served, 10)
    return pod_name, answer
