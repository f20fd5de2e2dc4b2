"""A real picker and a real sidecar send one request to a prefill and to a decode pod.

The picker and the sidecar are llm-d's, which are not among the tools that are built here:
`llm-d-epp` and `llm-d-sidecar` on PATH (v0.10.0, see README.md). Without them the tests that need
them are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import urllib3

from e2e.disaggregated import NIXL, disaggregated, lws_named, started
from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.ext_proc import DESTINATION, ExternalProcessor
from e2e.harness.pods import leaders
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.model_server import ModelServer
from e2e.routers import generated_picker

PREFILLER = "x-prefiller-host-port"

LLM_D = "llm-d-epp and llm-d-sidecar are on PATH"


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    found = {name: shutil.which(name) for name in ("llm-d-epp", "llm-d-sidecar")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not on PATH: see e2e/README.md")
    return {name: Path(str(path)) for name, path in found.items()}


@pytest.fixture
def ports() -> tuple[int, int]:
    """The pool's port and the engine's, free on this machine."""
    pool, engine = free_ports(2)
    return pool, engine


@pytest.fixture
def served(
    cluster: Cluster, namespace: str, programs: dict[str, Path], ports: tuple[int, int]
) -> Iterator[tuple[list[Object], EndpointPicker]]:
    del programs
    pool, engine = ports
    manifest = disaggregated(
        namespace,
        prefill={"port": pool},
        decode={
            "port": pool,
            "kvTransfer": {"enginePort": engine},
        },
        container={"args": ["--model", "m", "--kv-transfer-config", NIXL,
                            f"--port={pool}"]},
    )  # fmt: skip
    objects = started(cluster, namespace, manifest, leading=4)
    with generated_picker(cluster, "llm-d", objects, plain=True) as picker:
        picker.wait_serving()
        yield objects, picker


@pytest.mark.proves("llm-d's picker and sidecar pair a decode with a prefill pod", needs=LLM_D)
def test_request_goes_to_prefill_then_decode(
    cluster: Cluster,
    namespace: str,
    programs: dict[str, Path],
    ports: tuple[int, int],
    served: tuple[list[Object], EndpointPicker],
) -> None:
    objects, picker = served
    pool, engine = ports
    by_role = _addresses(cluster, namespace)
    request = {"model": "m", "prompt": "Where is the cache? " * 20, "max_tokens": 7}
    cluster.wait(lambda: pairs(picker, request), message=picker.program.tail)
    picked = pick(picker, request)
    decode, prefill = picked[DESTINATION], picked[PREFILLER]
    assert decode in {f"{address}:{pool}" for address in by_role["decode"]}
    assert prefill in {f"{address}:{pool}" for address in by_role["prefill"]}

    moved = {"kv_transfer_params": {"remote_engine_id": "prefill", "remote_block_ids": [1, 2]}}
    with ExitStack() as stack:
        engines = {
            address: stack.enter_context(ModelServer(address, pool, moved))
            for address in by_role["prefill"]
        }
        local = stack.enter_context(ModelServer(LOOPBACK, engine, {"served_by": "decode"}))
        listens = _sidecar(stack, cluster, objects, programs["llm-d-sidecar"])
        # It is healthy before it has read the pool's pods; an engine takes longer to load.
        probe = {"model": "m", "prompt": "x", "max_tokens": 1}
        cluster.wait(lambda: _post(listens, probe, {PREFILLER: prefill}).status == 200)
        for server in (*engines.values(), local):
            server.requests.clear()
        answer = _ask(listens, request, {PREFILLER: prefill})
        assert answer["served_by"] == "decode"

        (chosen,) = [engines[address] for address in engines if f"{address}:{pool}" == prefill]
        (first,) = chosen.requests
        assert (first["prompt"], first["max_tokens"]) == (request["prompt"], 1)
        assert first["kv_transfer_params"]["do_remote_decode"] is True
        assert [each.requests for each in engines.values() if each is not chosen] == [[]]
        (second,) = local.requests
        assert (second["prompt"], second["max_tokens"]) == (request["prompt"], 7)
        # What the prefill pod said about its cache reaches the decode engine.
        assert second["kv_transfer_params"].items() >= moved["kv_transfer_params"].items()

        # Without a prefill pod the decode pod does it all.
        assert _ask(listens, request, {})["served_by"] == "decode"
        assert len(local.requests) == 2
        assert len(chosen.requests) == 1


@pytest.mark.proves("A protected sidecar sends prompts only to pods of its pool", needs=LLM_D)
@pytest.mark.usefixtures("served")
def test_sidecar_rejects_other_prefill_addresses(
    cluster: Cluster,
    programs: dict[str, Path],
    ports: tuple[int, int],
    served: tuple[list[Object], EndpointPicker],
) -> None:
    objects, _ = served
    _, engine = ports
    (elsewhere,) = free_ports(1)
    with ExitStack() as stack:
        stranger = stack.enter_context(ModelServer(LOOPBACK, elsewhere, {}))
        local = stack.enter_context(ModelServer(LOOPBACK, engine, {}))
        listens = _sidecar(stack, cluster, objects, programs["llm-d-sidecar"])
        sent = {"model": "m", "prompt": "x", "max_tokens": 1}
        status = _post(listens, sent, {PREFILLER: f"{LOOPBACK}:{elsewhere}"}).status
        assert status == 403
        assert (stranger.requests, local.requests) == ([], [])


def pairs(picker: EndpointPicker, request: dict[str, Any]) -> bool:
    try:
        return PREFILLER in pick(picker, request)
    except Exception:  # noqa: BLE001 - it does not know its pods yet
        return False


def pick(picker: EndpointPicker, request: dict[str, Any]) -> Mapping[str, str]:
    with ExternalProcessor(f"{LOOPBACK}:{picker.grpc_port}") as processor:
        return processor.ask(request).headers


def _sidecar(stack: ExitStack, cluster: Cluster, objects: list[Object], executable: Path) -> int:
    """Starts the sidecar with what was generated, but for the port: one machine is all pods."""
    decode = lws_named(objects, "decode")
    namespace = decode["metadata"]["namespace"]
    spec = decode["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    (container,) = spec["initContainers"]
    (listens,) = free_ports(1)
    arguments = [
        f"--port={listens}" if each.startswith("--port=") else each.replace("$(NAMESPACE)",
                                                                             namespace)
        for each in container["args"]
    ]  # fmt: skip
    subject = f"system:serviceaccount:{namespace}:{spec['serviceAccountName']}"
    environment = {"KUBECONFIG": str(cluster.kubeconfig_for(subject)), "POD_IP": LOOPBACK}
    name = f"sidecar-{listens}"
    program = cluster.programs.start(name, [executable, *arguments], env=environment)
    stack.callback(cluster.programs.stop, name)

    def healthy() -> bool:
        program.check()
        try:
            with urllib3.PoolManager(retries=False, timeout=2) as http:
                return http.request("GET", f"http://{LOOPBACK}:{listens}/health").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    cluster.wait(healthy, message=program.tail)
    return listens


def _ask(port: int, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    answer = _post(port, body, headers)
    assert answer.status == 200, answer.data
    output: dict[str, Any] = answer.json()
    return output


def _post(port: int, body: dict[str, Any], headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False, timeout=10) as http:
        url = f"http://{LOOPBACK}:{port}/v1/completions"
        return http.request("POST", url, json=body, headers=headers)


def _addresses(cluster: Cluster, namespace: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"prefill": set(), "decode": set()}
    for pod in leaders(cluster, namespace):
        found[pod["metadata"]["labels"]["llm-d.ai/role"]].add(pod["status"]["podIP"])
    return found
