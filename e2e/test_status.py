"""The status of services during their life.

`--write-transcripts` records live objects and their status for the unit tests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from e2e import inputs, routers
from e2e.engine.gateway import GatewayStandIn
from e2e.harness import Cluster, Object
from e2e.harness.stages import SLOW, UNPULLABLE
from e2e.live import TIMEOUT, LiveService
from fusioninfer_pulumi.component.status import ServiceStatus, compute_status

FOLDER = inputs.ROOT / "tests" / "fixtures" / "status"

STAGES: dict[str, dict[str, tuple[str, dict[str, str]]]] = yaml.safe_load(
    Path(__file__).with_name("status_stages.yaml").read_text(encoding="utf-8")
)


class StageRecorder:
    """Records the stages of a service, with the statuses that `status_stages.yaml` expects."""

    def __init__(self, story: str, service: LiveService) -> None:
        self.service = service
        self._story = story
        self._stages: list[Object] = []

    def record_stage(
        self, name: str, *, failed: Sequence[str] = (), stored: list[Object] | None = None
    ) -> ServiceStatus:
        """Wait for the status of a stage, record it and return it.

        Args:
            name: Description of the stage.
            failed: LeaderWorkerSets whose pods' failures are part of the status.
            stored: Objects to read instead of the live ones.
        """
        stage: Object = {}
        failures = self.service.wait_failed(*failed) if failed else None

        def is_reached() -> bool:
            stage.update(self._read(failures, stored))
            output = stage["status"]
            condition = next(c for c in output["conditions"] if c["type"] == "Active")
            phases = {
                role: f"{info['phase']} {info['readyReplicas']}/{info['desiredReplicas']}"
                for role, info in output["components"].items()
            }
            stage["observed"] = [f"{condition['status']} {condition['reason']}", phases]
            return bool(stage["observed"] == STAGES[self._story][name])

        self.service.cluster.wait(is_reached, TIMEOUT, lambda: (name, stage))
        del stage["observed"]
        self._stages.append({"stage": name, **stage})
        status: ServiceStatus = stage["status"]
        return status

    def _read(self, failures: Mapping[str, str] | None, stored: list[Object] | None) -> Object:
        if stored is None:
            lws, group = self.service.lws(), self.service.pod_group()
        else:
            group = next((item for item in stored if item["kind"] == "PodGroup"), None)
            kind = "LeaderWorkerSet"
            lws = {e["metadata"]["name"]: e for e in stored if e["kind"] == kind}
        plan = self.service.plan
        facts: Object = {
            "service": self.service.manifest,
            "sets": {name: _keep_status(item) for name, item in lws.items()},
            "podGroup": _keep_status(group),
        }
        if failures:
            facts["failures"] = dict(failures)
        routing = self.service.routing()
        if routing:
            facts["routing"] = {name: _keep_status(item) for name, item in routing.items()}
        status = compute_status(plan, {**lws, plan.service: group, **routing}, failures)
        # Omitted fields must not change the status.
        live = {**facts["sets"], plan.service: facts["podGroup"], **facts.get("routing", {})}
        assert status == compute_status(plan, live, failures)
        return {**facts, "status": status}

    def finish(self, request: pytest.FixtureRequest) -> None:
        """Assert that all stages were seen; write them if transcripts are wanted."""
        assert [stage["stage"] for stage in self._stages] == list(STAGES[self._story])
        if not request.config.getoption("--write-transcripts"):
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        comment = "# Recorded on the real components by e2e/test_status.py --write-transcripts\n"
        text = yaml.safe_dump(
            self._stages, sort_keys=False, width=100, allow_unicode=True, default_flow_style=None
        )
        (FOLDER / f"{self._story}.yaml").write_text(comment + text, encoding="utf-8")


def _keep_status(manifest: Object | None) -> Object | None:
    if manifest is None:
        return None
    metadata = {
        key: manifest["metadata"][key]
        for key in ("name", "generation", "deletionTimestamp")
        if key in manifest["metadata"]
    }
    fields: Object = {"metadata": metadata}
    return {**fields, "status": manifest["status"]} if "status" in manifest else fields


MINIMUM = {"prefill": 1, "decode": 1}
DISAGGREGATED = inputs.prefill_decode(minimum=MINIMUM)


def with_behavior(manifest: Object, role: int, **annotations: str) -> Object:
    changed = copy.deepcopy(manifest)
    prefixed = {f"e2e.fusioninfer.io/{key}": value for key, value in annotations.items()}
    changed["spec"]["roles"][role]["template"]["metadata"] = {"annotations": prefixed}
    return changed


def update(service: LiveService, manifest: Object, *names: str) -> None:
    """Update some LeaderWorkerSets, as a rolling update does."""
    service.manifest = manifest
    objects = inputs.with_namespace(inputs.render_objects(service.plan), service.namespace)
    service.cluster.apply([item for item in objects if item["metadata"]["name"] in names])


@pytest.mark.verifies("A gang's status is right from creation through failures to deletion")
def test_gang_status_is_right_from_creation_to_deletion(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    service = LiveService(cluster, namespace, DISAGGREGATED)
    recorder = StageRecorder("gang", service)

    recorder.record_stage("nothing is created")
    stored = cluster.apply(inputs.with_namespace(inputs.render_objects(service.plan), namespace))
    service.apply()
    recorder.record_stage("just created", stored=stored)
    service.wait_bound({"prefill-0": 0, "decode-0": 0, "decode-1": 0})
    blocked = recorder.record_stage("no nodes: the gang is blocked")
    output = next(c["message"] for c in blocked["conditions"] if c["type"] == "Active")
    assert "gang unschedulable" in output

    cluster.add_nodes(8)
    recorder.record_stage("capacity for one of two decode replicas")
    cluster.add_nodes(2)
    recorder.record_stage("capacity for all replicas")

    slow = with_behavior(DISAGGREGATED, 1, behavior=SLOW, delay="6s")
    update(service, slow, "svc-decode-1")
    recorder.record_stage("one of two decode replicas is updated")
    recorder.record_stage("the first update is complete")

    broken = with_behavior(DISAGGREGATED, 1, behavior=UNPULLABLE)
    update(service, broken, "svc-decode-1")
    recorder.record_stage("an update whose image cannot be pulled")
    recorder.record_stage("the same, with failures of pods", failed=["svc-decode-1"])

    service.apply(DISAGGREGATED)
    recorder.record_stage("rolled back")
    prefill = next(p for p in service.pods() if p["metadata"]["name"] == "svc-prefill-0-0")
    cluster.remove_nodes([prefill["spec"]["nodeName"]])
    recorder.record_stage("the only prefill replica lost a node")
    cluster.add_nodes(1)
    recorder.record_stage("a node is added")

    hold = {"metadata": {"finalizers": ["e2e.fusioninfer.io/hold"]}}
    cluster.patch("LeaderWorkerSet", "svc-decode-1", hold, namespace)
    cluster.delete("LeaderWorkerSet", "svc-decode-1", namespace)
    recorder.record_stage("a replica is terminating")
    release = {"metadata": {"finalizers": None}}
    cluster.patch("LeaderWorkerSet", "svc-decode-1", release, namespace)

    service.delete()
    recorder.record_stage("deleted")
    recorder.finish(request)


@pytest.mark.verifies("The status of independent replicas is right")
def test_status_of_independent_replicas_is_right(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    plain = inputs.service("svc", inputs.role("inference", "worker", 3, gpus=8))
    service = LiveService(cluster, namespace, with_behavior(plain, 0, behavior=SLOW, delay="4s"))
    recorder = StageRecorder("independent", service)
    service.apply()
    recorder.record_stage("no nodes")
    cluster.add_nodes(1)
    recorder.record_stage("the first replica is ready")
    cluster.add_nodes(2)
    recorder.record_stage("all replicas are ready")

    broken = with_behavior(plain, 0, behavior=UNPULLABLE)
    update(service, broken, "svc-inference-2")
    recorder.record_stage("an update fails at its first replica")
    update(service, broken, "svc-inference-1", "svc-inference-0")
    recorder.record_stage("the failing update is on all replicas")
    failed = [f"svc-inference-{index}" for index in range(3)]
    recorder.record_stage("the failing update, with failures of pods", failed=failed)

    service.apply(plain)
    recorder.record_stage("the image is fixed")
    service.apply(inputs.service("svc", inputs.role("inference", "worker", 0, gpus=8)))
    recorder.record_stage("scaled to zero")
    recorder.finish(request)


@pytest.mark.verifies("Status reports what a gateway rejects (stand-in controller)")
def test_router_status_reports_gateway(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    cluster.add_nodes(1)
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    gateway = {"gatewayClassName": "stand-in", "listeners": [listener]}
    service = LiveService(cluster, namespace, routers.make_routed("default", gateway=gateway))
    recorder = StageRecorder("router", service)
    service.apply()
    recorder.record_stage("no gateway has reported status")
    with GatewayStandIn(cluster, namespace, delay=0.2) as stand_in:
        stand_in.rejected["HTTPRoute"] = "NotAllowedByListeners"
        recorder.record_stage("the route is rejected")
        stand_in.rejected = {"InferencePool": "InvalidExtensionRef"}
        recorder.record_stage("the pool is rejected")
        stand_in.rejected = {"Gateway": "AddressNotAssigned"}
        recorder.record_stage("the Gateway is not ready")
        stand_in.rejected = {}
        recorder.record_stage("all is accepted")
    recorder.finish(request)
