"""Prefill and decode engines of different releases, compared with the prediction for updates."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import pytest
import urllib3

from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.engine import VLLM
from e2e.serve.images import LLM_D
from e2e.serve.load import read_metrics, sum_metric
from e2e.serve.services import IMAGE, MODEL, PROMPT, needs, render_objects, role, router, service
from e2e.serve.serving import Serving
from fusioninfer_pulumi.engines.engine import Compatibility, EngineCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.pair_compatibility import compare_pair
from fusioninfer_pulumi.engines.vllm_kv_cache import VllmKvCache

#: The first does not compare hashes of settings; after a mismatch, the others' engines exit, fail
#: requests or recompute prompts.
RELEASES = ("0.12.0", "0.17.0", "0.28.0", VLLM)
NEEDED = needs(*LLM_D.values(), releases=RELEASES)
pytestmark = [pytest.mark.serve, pytest.mark.long, NEEDED]

POLICIES = {"0.17.0": "recompute", "0.28.0": "fail", VLLM: "recompute"}
"""What decode engines do with prompts whose KV cache they cannot load; older ones recompute."""

ENGINE_PORT, SIDECAR_PORT = 8001, 8000
TRANSFER_COUNT = "vllm:nixl_xfer_time_seconds_count"
REQUESTS = 3
SECONDS = 60
"""Client timeout. The first transfer between two engines takes longer than others."""


@dataclass(frozen=True)
class Engines:
    """A namespace with a service of one prefill and one decode pod for each release."""

    running: Serving
    namespace: str

    def wait_serving(self, release: str) -> None:
        """Wait until all pods are ready, and the decode pod answers without a prefill pod."""
        self.running.wait_ready(self.namespace, 2 * len(RELEASES), LEADERS)
        self.running.cluster.wait(
            lambda: self._send_request("", self.pod("decode", release)) == 200, 300
        )

    def pod(self, role: str, release: str) -> Object:
        selector = f"fusioninfer.io/service={_make_name(release)},fusioninfer.io/role-name={role}"
        (pod,) = self.running.wait_ready(self.namespace, 1, selector)
        return pod

    def command(self, role: str, release: str) -> EngineCommand:
        containers = self.pod(role, release)["spec"]["containers"]
        (engine,) = (item for item in containers if item["name"] == "vllm")
        return parse_command(engine)

    def observe(self, prefill: str, decode: str) -> Compatibility:
        """Send requests to this pair; return whether it transfers, recomputes or fails."""
        target = self.pod("decode", decode)
        before = sum_metric(read_metrics(target, ENGINE_PORT), TRANSFER_COUNT)
        for number in range(REQUESTS):
            status = self._send_request(prefill, target, number)
            if status != 200:
                print(f"status {status}")
                return Compatibility.BROKEN
        # An engine exports the last transfer with its next step.
        self._send_request("", target)
        transfers = sum_metric(read_metrics(target, ENGINE_PORT), TRANSFER_COUNT) - before
        assert transfers in (0, REQUESTS)
        return Compatibility.COMPATIBLE if transfers else Compatibility.DEGRADED

    def _send_request(self, prefill: str, decode: Object, number: int = 0) -> int:
        """Return the status of a request to the sidecar of a decode pod, 0 without a response."""
        headers = {}
        if prefill:
            address = self.pod("prefill", prefill)["status"]["podIP"]
            headers = {"x-prefiller-host-port": f"{address}:{SIDECAR_PORT}"}
        body = {"model": MODEL, "prompt": f"{prefill} {number} {PROMPT}", "max_tokens": 4}
        url = f"http://{decode['status']['podIP']}:{SIDECAR_PORT}/v1/completions"
        try:
            return urllib3.request(
                "POST", url, json=body, headers=headers, timeout=SECONDS, retries=False
            ).status
        except urllib3.exceptions.HTTPError:
            return 0


def _make_name(release: str) -> str:
    return f"svc-{release.replace('.', '-')}"


def _render(namespace: str, release: str) -> list[Object]:
    # Before 0.28 the default of `kv_buffer_device` is not the device of the engine.
    transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}
    transfer |= {"kv_load_failure_policy": POLICIES[release]} if release in POLICIES else {}
    args = ("--num-gpu-blocks-override", "64", "--kv-transfer-config", json.dumps(transfer))
    roles = [
        role(name, kind, image=IMAGE.replace(VLLM, release), args=args)
        for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
    ]  # fmt: skip
    parts = router("pd-disaggregation"), *roles
    rendered = json.dumps(render_objects(service(namespace, *parts, name=_make_name(release))))
    # Requests go to the sidecars, so no endpoint picker is needed, and to prefill pods of other
    # pools, which sidecars otherwise reject.
    rendered = rendered.replace("--enable-ssrf-protection=true", "--enable-ssrf-protection=false")
    return [item for item in json.loads(rendered) if item["kind"] != "Deployment"]


@pytest.fixture(scope="module")
def engines(running: Serving, namespace: str) -> Engines:
    for release in RELEASES:
        running.apply(_render(namespace, release))
    return Engines(running, namespace)


@pytest.mark.verifies(
    "Pairs of prefill and decode engines behave as `diff` predicts, or it says unknown: vLLM "
    f"{', '.join(RELEASES)}"
)
def test_pairs_behave_as_predicted(engines: Engines) -> None:
    mispredicted, known = [], 0
    commands = {
        release: [engines.command(role, release) for role in ("prefill", "decode")]
        for release in RELEASES
    }

    def can_end_listener(pair: tuple[str, str]) -> bool:
        decode, prefill = (commands[release] for release in pair)
        _, effect = VllmKvCache().predict_failure(prefill[0], decode[1], differs=True)
        return effect.endswith("until it restarts")

    # Prefill engines whose listener has ended are of no use for other pairs.
    for decode, prefill in sorted(itertools.product(RELEASES, RELEASES), key=can_end_listener):
        # A decode engine that exited starts again.
        engines.wait_serving(decode)
        predicted = compare_pair(commands[prefill][0], commands[decode][1]).state
        observed = engines.observe(prefill, decode)
        print(f"prefill {prefill}, decode {decode}: predicted {predicted.name}, "
              f"observed {observed.name}")  # fmt: skip
        known += predicted is not Compatibility.UNKNOWN
        if predicted not in (observed, Compatibility.UNKNOWN):
            mispredicted.append((prefill, decode))
    assert not mispredicted
    assert known
