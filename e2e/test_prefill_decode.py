"""llm-d's endpoint picker with serving groups, and its sidecar's protection of their pool.

The tests need llm-d's v0.10.0 programs on PATH (README.md). `serve/test_prefill_decode.py` sends
requests through both to real engines.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest
import urllib3

from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.ext_proc import DESTINATION, ExternalProcessor
from e2e.harness.pods import leaders
from e2e.harness.processes import LOOPBACK, find_ports
from e2e.harness.stages import BEHAVIOR
from e2e.routers import deploy, find_lws, make_disaggregated, make_picker, wait_for_leaders
from e2e.strategies.engine import Engine

LLM_D = "llm-d-epp and llm-d-sidecar are on PATH"
pytestmark = pytest.mark.skipif(
    not (shutil.which("llm-d-epp") and shutil.which("llm-d-sidecar")),
    reason=f"needs that {LLM_D}: see e2e/README.md",
)

PREFILLER = "x-prefiller-host-port"
GROUP, ROLE = "fusioninfer.io/group-index", "fusioninfer.io/role-name"
REQUESTS = 60


@pytest.mark.verifies("A protected sidecar sends prompts only to pods of its pool", needs=LLM_D)
def test_sidecar_rejects_other_prefill_addresses(cluster: Cluster, namespace: str) -> None:
    pool, engine, other_port = find_ports(3)
    manifest = make_disaggregated(
        namespace,
        prefill={"port": pool},
        decode={"port": pool, "kvTransfer": {"enginePort": engine}},
    )
    for role in manifest["spec"]["roles"][1:]:
        role["template"]["spec"]["containers"][0]["args"].append(f"--port={pool}")
    objects = deploy(cluster, namespace, manifest, leading=4)
    with ExitStack() as stack:
        other_engine = stack.enter_context(Engine(LOOPBACK, other_port))
        local = stack.enter_context(Engine(LOOPBACK, engine))
        port = _start_sidecar(stack, cluster, objects)
        assert _post(port, {}) == 200
        assert local.completions == 1
        assert _post(port, {PREFILLER: f"{LOOPBACK}:{other_port}"}) == 403
        assert (other_engine.completions, local.completions) == (0, 1)


def _start_sidecar(stack: ExitStack, cluster: Cluster, objects: list[Object]) -> int:
    """Start the generated sidecar on a free port of this machine; return the port."""
    decode = find_lws(objects, "decode")
    namespace = decode["metadata"]["namespace"]
    spec = decode["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    (container,) = spec["initContainers"]
    (port,) = find_ports(1)
    flags = [flag.replace("$(NAMESPACE)", namespace) for flag in container["args"]]
    arguments = [flag for flag in flags if not flag.startswith("--port=")]
    subject = f"system:serviceaccount:{namespace}:{spec['serviceAccountName']}"
    environment = {"KUBECONFIG": str(cluster.kubeconfig_for(subject)), "POD_IP": LOOPBACK}
    name = f"sidecar-{port}"
    program = cluster.programs.start(
        name, ["llm-d-sidecar", f"--port={port}", *arguments], env=environment
    )
    stack.callback(cluster.programs.stop, name)

    def is_healthy() -> bool:
        program.check()
        try:
            url = f"http://{LOOPBACK}:{port}/health"
            return urllib3.request("GET", url, retries=False, timeout=2).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    cluster.wait(is_healthy, message=program.tail)
    return port


def _post(port: int, headers: Mapping[str, str]) -> int:
    url = f"http://{LOOPBACK}:{port}/v1/completions"
    body = {"model": "m", "prompt": "x", "max_tokens": 1}
    return urllib3.request("POST", url, json=body, headers=headers, retries=False).status


def _pick(picker: EndpointPicker, prompt: str) -> Mapping[str, str]:
    with ExternalProcessor(f"{LOOPBACK}:{picker.grpc_port}") as processor:
        return processor.send_request({"model": "m", "prompt": prompt, "max_tokens": 7}).headers


def _has_pairs(picker: EndpointPicker) -> bool:
    try:
        return PREFILLER in _pick(picker, "x" * 400)
    except Exception:  # noqa: BLE001 - the picker has not synced its pods yet
        return False


def _find_used_groups(
    cluster: Cluster, namespace: str, picker: EndpointPicker
) -> set[tuple[str, str]]:
    """Return the groups of decode and prefill pods that get requests."""
    groups = {
        pod["status"]["podIP"]: pod["metadata"]["labels"][GROUP]
        for pod in leaders(cluster, namespace)
    }
    pairs = set()
    for number in range(REQUESTS):
        headers = _pick(picker, f"Request {number}. " * 40)
        chosen = (headers[DESTINATION], headers[PREFILLER])
        decode, prefill = (groups[address.rpartition(":")[0]] for address in chosen)
        pairs.add((decode, prefill))
    return pairs


def _crash_prefill_of(cluster: Cluster, namespace: str, group: str) -> None:
    for pod in leaders(cluster, namespace):
        labels = pod["metadata"]["labels"]
        if labels[GROUP] == group and labels[ROLE] == "prefill":
            crash = {"metadata": {"annotations": {BEHAVIOR: "crashing"}}}
            cluster.patch("v1/Pod", pod["metadata"]["name"], crash, namespace)
    wait_for_leaders(cluster, namespace, 6)


@pytest.mark.parametrize(
    ("pairing", "crossed"),
    [
        pytest.param("Strict", {("1", "1")}, marks=pytest.mark.verifies(
            "llm-d's picker never pairs pods of different groups", needs=LLM_D)),
        pytest.param("Preferred", {("0", "1"), ("1", "1")}, marks=pytest.mark.verifies(
            "groupPairing Preferred crosses groups only if a group lacks prefill pods",
            needs=LLM_D)),
    ],
)  # fmt: skip
def test_groups_pair_as_configured(
    cluster: Cluster, namespace: str, pairing: str, crossed: set[tuple[str, str]]
) -> None:
    manifest: Any = make_disaggregated(namespace, endpointPicker={"groupPairing": pairing})
    manifest["spec"]["groups"] = 2
    for role in manifest["spec"]["roles"][1:]:
        role["restartPolicy"] = "None"
    objects = deploy(cluster, namespace, manifest, leading=8)
    with make_picker(cluster, "llm-d", objects, plain=True) as picker:
        picker.wait_serving()
        cluster.wait(lambda: _has_pairs(picker), message=picker.program.tail)
        whole = {("0", "0"), ("1", "1")}
        cluster.wait(lambda: _find_used_groups(cluster, namespace, picker) == whole)  # synced
        assert _find_used_groups(cluster, namespace, picker) == whole
        _crash_prefill_of(cluster, namespace, "0")
        cluster.wait(lambda: _find_used_groups(cluster, namespace, picker) == crossed)
