"""Roles that follow `autoscaling.target`: real KEDA, Prometheus and controller of autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from e2e.harness import Cluster, Object
from e2e.inputs import role, service
from e2e.keda import Exporter, Target, absent, keda, prometheus
from e2e.live import LiveService
from e2e.repeated import repeated
from e2e.test_autoscaling import LWS

pytestmark = pytest.mark.long

PATIENCE = 120
SCALED = "keda.sh/v1alpha1/ScaledObject"
WAITING, CACHE = "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"


@pytest.fixture(scope="module")
def scaler(cluster: Cluster) -> Iterator[None]:
    """KEDA, where it is there."""
    reason = absent()
    if reason is not None:
        pytest.skip(reason)
    with keda(cluster):
        yield


@dataclass
class History:
    """How many replicas each LeaderWorkerSet was told to have, one change after the other."""

    cluster: Cluster
    namespace: str
    names: tuple[str, ...]
    seen: dict[str, list[int]] = field(default_factory=dict)

    def replicas(self, name: str) -> int:
        """How many it shall have now."""
        return int(self.cluster.get(LWS, name, self.namespace)["spec"]["replicas"])

    def note(self) -> None:
        """Looks once."""
        for name in self.names:
            counts = self.seen.setdefault(name, [])
            now = self.replicas(name)
            if counts[-1:] != [now]:
                counts.append(now)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks several times a second for a while."""
        try:
            with repeated(self.note, 0.2):
                yield
        finally:
            self.note()


def autoscaling(address: str, least: int, most: int) -> Object:
    """Scales soon."""
    return {
        "engine": "KEDA",
        "prometheus": address,
        "target": "throughput",
        "minReplicas": least,
        "maxReplicas": most,
        "keda": {"pollingInterval": 1, "cooldownPeriod": 5},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }


def engine(name: str, kind: str, replicas: int, scaling: Object) -> Object:
    """A role of vLLM, whose metrics the library knows."""
    made = role(name, kind, replicas, 1, 1, autoscaling=scaling)
    (container,) = made["template"]["spec"]["containers"]
    container |= {"image": "vllm/vllm-openai:v0.32.0", "command": ["vllm", "serve", "m"]}
    return made


def labels(namespace: str, kind: str) -> dict[str, str]:
    """Those that the monitors give to engines."""
    return {
        "namespace": namespace,
        "fusioninfer_io_service": "svc",
        "fusioninfer_io_component_type": kind,
    }


@pytest.mark.proves("KEDA scales prefill and decode in their ratio")
def test_prefill_and_decode_keep_their_ratio(
    cluster: Cluster, namespace: str, scaler: None
) -> None:
    del scaler
    with ExitStack() as stack:
        prefill, decode = (stack.enter_context(Exporter()) for _ in range(2))
        prefill.gauges, decode.gauges = {WAITING: 0}, {WAITING: 0, CACHE: 0}
        address = stack.enter_context(
            prometheus(
                cluster,
                {
                    "prefill": Target(prefill, labels(namespace, "prefiller")),
                    "decode": Target(decode, labels(namespace, "decoder")),
                },
            )
        )
        manifest = service(
            "svc",
            engine("prefill", "prefiller", 1, autoscaling(address, 1, 4)),
            engine("decode", "decoder", 2, autoscaling(address, 2, 8)),
            minimum={"prefill": 1, "decode": 2},
        )
        history = start(cluster, namespace, manifest)

        def reaches(prefills: int, decodes: int) -> None:
            cluster.wait(
                lambda: (
                    [history.replicas(name) for name in ("svc-prefill", "svc-decode")]
                    == [prefills, decodes]
                ),
                PATIENCE,
                lambda: (history.seen, cluster.list(SCALED, namespace)),
            )

        stack.enter_context(history.watching())
        prefill.gauges = {WAITING: 10}
        decode.gauges = {WAITING: 10, CACHE: 1}
        reaches(2, 4)
        decode.gauges = {WAITING: 20, CACHE: 1}
        reaches(3, 6)
        # No program serves metrics: replicas are left as they are.
        prefill.gauges, decode.gauges = {}, {}
        before = decode.asked
        cluster.wait(lambda: decode.asked >= before + 8, PATIENCE)
        reaches(3, 6)
        prefill.gauges, decode.gauges = {WAITING: 0}, {WAITING: 0, CACHE: 0.1}
        reaches(1, 2)
    assert history.seen == {"svc-prefill": [1, 2, 3, 1], "svc-decode": [2, 4, 6, 2]}


def start(cluster: Cluster, namespace: str, manifest: Object) -> History:
    """Applies a service, and waits until its pods are bound."""
    cluster.add_nodes(2)
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["monitoring"] = {}
    live = LiveService(cluster, namespace, manifest)
    live.apply()
    history = History(cluster, namespace, tuple(live.lws()))
    history.note()
    return history
