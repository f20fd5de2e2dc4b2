"""Serves: a canary from 5 % to 100 % of the requests and back, as docs/how-to/canary.md has it."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
import urllib3

from e2e.rewrites import KIND, with_llm_d_rewrites
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, complete, figures
from e2e.serve.services import MODEL, NEED, PROMPT, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(not shutil.which("llm-d-epp"), reason="not on PATH: llm-d-epp"),
]

PUBLIC, ADAPTER = "chat", "poet"
REQUESTS = 60
#: Of so many requests; a share that is drawn for each is outside of them once in 10,000 runs.
BOUNDS = {5: (0, 12), 50: (15, 45), 100: (60, 60), 0: (0, 0)}


@pytest.mark.proves(
    "a canary of an adapter gets 5 %, 50 % and 100 % of the requests for a public name and none "
    "again, with tokens through Envoy and llm-d's picker: no request fails, no pod restarts, and "
    "clients see the name that they asked for",
    needs=f"{NEED} with llm-d's programs on PATH",
)
def test_a_canary_goes_up_and_back(running: Serving) -> None:
    with_llm_d_rewrites(running.cluster)
    namespace = running.cluster.new_namespace()
    objects = _objects(namespace, 5)
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    texts = {
        complete(gateway.url, name, PROMPT, host=gateway.host)["choices"][0]["text"]: name
        for name in (MODEL, ADAPTER)
    }
    assert len(texts) == 2, "the adapter answers otherwise"

    def answered() -> Counter[str]:
        drawn = Counter[str]()
        for _ in range(REQUESTS):
            answer = complete(gateway.url, PUBLIC, PROMPT, host=gateway.host)
            assert answer["model"] == PUBLIC
            drawn[texts[answer["choices"][0]["text"]]] += 1
        return drawn

    pods = [pod["metadata"]["uid"] for pod in running.pods(namespace)]
    with Load(gateway.url, PUBLIC, host=gateway.host, clients=1) as load:
        for share, (least, most) in BOUNDS.items():
            changed = _objects(namespace, share)
            running.cluster.apply([each for each in changed if each["kind"] == KIND])
            load.wait(2)
            drawn = answered()
            print(f"{share} %: {dict(drawn)}")
            assert least <= drawn[ADAPTER] <= most, (share, drawn)
    print(figures(load.answers))
    assert [answer.error for answer in load.answers if answer.error] == []
    assert [pod["metadata"]["uid"] for pod in running.pods(namespace)] == pods
    assert _streamed_models(gateway) == {PUBLIC}
    gateway.close()
    running.cluster.delete_namespace(namespace)


def _objects(namespace: str, share: int) -> list[dict[str, object]]:
    targets = [{"model": MODEL, "weight": 100 - share}, {"model": ADAPTER, "weight": share}]
    args = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"{ADAPTER}=adapter")
    rewrites = [{"models": [PUBLIC], "targets": targets}]
    return objects_of(service(namespace, router(modelRewrites=rewrites), role(args=args)))


def _streamed_models(gateway: Gateway) -> set[str]:
    """The names in the pieces of a streamed answer."""
    body = {"model": PUBLIC, "prompt": PROMPT, "max_tokens": 4, "stream": True}
    answer = urllib3.request(
        "POST", f"{gateway.url}/v1/completions", json=body, headers={"Host": gateway.host},
        timeout=60, retries=False,
    )  # fmt: skip
    lines = answer.data.decode().splitlines()
    pieces = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return {json.loads(piece)["model"] for piece in pieces}
