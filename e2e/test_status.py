"""The status of services during their life.

`--write-transcripts` records live objects and their status for the unit tests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from e2e import inputs, routers
from e2e.engine.gateway import GatewayStandIn
from e2e.harness import Cluster, Object
from e2e.harness.stages import SLOW, UNPULLABLE
from e2e.live import PATIENCE, LiveService
from fusioninfer_pulumi.component.status import ServiceStatus, service_status

FOLDER = inputs.ROOT / "tests" / "fixtures" / "status"


class Life:
    """The stages of a service's life."""

    def __init__(self, service: LiveService) -> None:
        self.service = service
        self.stages: list[Object] = []

    def stage(
        self,
        name: str,
        active: str,
        roles: Mapping[str, str],
        *,
        failures: Mapping[str, str] | None = None,
        stored: list[Object] | None = None,
    ) -> ServiceStatus:
        """Wait for a status, record it and return it.

        Args:
            name: Description of the stage.
            active: Status and reason of the condition Active, as in `True Partial`.
            roles: `phase ready/desired` by role.
            failures: Failures of pods, by LeaderWorkerSet.
            stored: Objects to read instead of the live ones.
        """
        seen: Object = {}

        def look() -> bool:
            seen.update(self._look(failures, stored))
            output = seen["status"]
            condition = next(c for c in output["conditions"] if c["type"] == "Active")
            phases = {
                role: f"{info['phase']} {info['readyReplicas']}/{info['desiredReplicas']}"
                for role, info in output["components"].items()
            }
            seen["said"] = (f"{condition['status']} {condition['reason']}", phases)
            return bool(seen["said"] == (active, dict(roles)))

        self.service.cluster.wait(look, PATIENCE, lambda: (name, seen))
        del seen["said"]
        self.stages.append({"stage": name, **seen})
        status: ServiceStatus = seen["status"]
        return status

    def _look(self, failures: Mapping[str, str] | None, stored: list[Object] | None) -> Object:
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
        status = service_status(plan, {**lws, plan.service: group, **routing}, failures)
        # Omitted fields must not change the status.
        live = {**facts["sets"], plan.service: facts["podGroup"], **facts.get("routing", {})}
        assert status == service_status(plan, live, failures)
        return {**facts, "status": status}

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        comment = "# Recorded on the real components by e2e/test_status.py --write-transcripts\n"
        text = yaml.safe_dump(
            self.stages, sort_keys=False, width=100, allow_unicode=True, default_flow_style=None
        )
        path.write_text(comment + text, encoding="utf-8")


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


def with_behaviour(manifest: Object, role: int, **annotations: str) -> Object:
    changed = copy.deepcopy(manifest)
    output = {f"e2e.fusioninfer.io/{key}": value for key, value in annotations.items()}
    changed["spec"]["roles"][role]["template"]["metadata"] = {"annotations": output}
    return changed


def update(service: LiveService, manifest: Object, *names: str) -> None:
    """Update some LeaderWorkerSets, as a rolling update does."""
    service.manifest = manifest
    objects = inputs.with_namespace(inputs.objects_of(service.plan), service.namespace)
    service.cluster.apply([item for item in objects if item["metadata"]["name"] in names])


def finish(life: Life, request: pytest.FixtureRequest, name: str) -> None:
    if request.config.getoption("--write-transcripts"):
        life.write(FOLDER / f"{name}.yaml")


@pytest.mark.proves("A gang's status is right from creation through failures to deletion")
def test_gang_status_from_creation_to_deletion(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    service = LiveService(cluster, namespace, DISAGGREGATED)
    life = Life(service)

    life.stage("nothing is created", "Unknown InferenceServiceCreating",
               {"prefill": "Unknown 0/1", "decode": "Unknown 0/2"})  # fmt: skip
    answers = cluster.apply(inputs.with_namespace(inputs.objects_of(service.plan), namespace))
    service.apply()
    life.stage("just created", "False InferenceServiceProcessing",
               {"prefill": "Pending 0/1", "decode": "Pending 0/2"}, stored=answers)  # fmt: skip
    service.wait_bound({"prefill-0": 0, "decode-0": 0, "decode-1": 0})
    blocked = life.stage("no nodes: the gang is blocked", "False GangNotScheduled",
                         {"prefill": "Pending 0/1", "decode": "Pending 0/2"})  # fmt: skip
    output = next(c["message"] for c in blocked["conditions"] if c["type"] == "Active")
    assert "gang unschedulable" in output

    cluster.add_nodes(8)
    life.stage("capacity for one of two decode replicas", "True Partial",
               {"prefill": "Running 1/1", "decode": "Deploying 1/2"})  # fmt: skip
    cluster.add_nodes(2)
    life.stage("capacity for all replicas", "True InferenceServiceAvailable",
               {"prefill": "Running 1/1", "decode": "Running 2/2"})  # fmt: skip

    slow = with_behaviour(DISAGGREGATED, 1, behaviour=SLOW, delay="6s")
    update(service, slow, "svc-decode-1")
    life.stage("one of two decode replicas is updated", "True Partial",
               {"prefill": "Running 1/1", "decode": "Deploying 1/2"})  # fmt: skip
    life.stage("the first update is complete", "True InferenceServiceAvailable",
               {"prefill": "Running 1/1", "decode": "Running 2/2"})  # fmt: skip

    broken = with_behaviour(DISAGGREGATED, 1, behaviour=UNPULLABLE)
    update(service, broken, "svc-decode-1")
    life.stage("an update whose image cannot be pulled", "True Partial",
               {"prefill": "Running 1/1", "decode": "Deploying 1/2"})  # fmt: skip
    life.stage("the same, with failures of pods", "True Partial",
               {"prefill": "Running 1/1", "decode": "Failed 1/2"},
               failures=service.wait_failed("svc-decode-1"))  # fmt: skip

    service.apply(DISAGGREGATED)
    life.stage("rolled back", "True InferenceServiceAvailable",
               {"prefill": "Running 1/1", "decode": "Running 2/2"})  # fmt: skip
    prefill = next(p for p in service.pods() if p["metadata"]["name"] == "svc-prefill-0-0")
    cluster.remove_nodes([prefill["spec"]["nodeName"]])
    life.stage("the only prefill replica lost a node", "False InferenceServiceProcessing",
               {"prefill": "Deploying 0/1", "decode": "Running 2/2"})  # fmt: skip
    cluster.add_nodes(1)
    life.stage("a node is added", "True InferenceServiceAvailable",
               {"prefill": "Running 1/1", "decode": "Running 2/2"})  # fmt: skip

    hold = {"metadata": {"finalizers": ["e2e.fusioninfer.io/hold"]}}
    cluster.patch("LeaderWorkerSet", "svc-decode-1", hold, namespace)
    cluster.delete("LeaderWorkerSet", "svc-decode-1", namespace)
    life.stage("a replica is terminating", "True Partial",
               {"prefill": "Running 1/1", "decode": "Deploying 1/2"})  # fmt: skip
    release = {"metadata": {"finalizers": None}}
    cluster.patch("LeaderWorkerSet", "svc-decode-1", release, namespace)

    service.delete()
    life.stage("deleted", "Unknown InferenceServiceCreating",
               {"prefill": "Unknown 0/1", "decode": "Unknown 0/2"})  # fmt: skip
    finish(life, request, "gang")


@pytest.mark.proves("The status of independent replicas is right")
def test_independent_replica_status(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    plain = inputs.service("svc", inputs.role("inference", "worker", 3, gpus=8))
    service = LiveService(cluster, namespace, with_behaviour(plain, 0, behaviour=SLOW, delay="4s"))
    life = Life(service)
    service.apply()
    processing = "False InferenceServiceProcessing"
    life.stage("no nodes", processing, {"inference": "Deploying 0/3"})
    cluster.add_nodes(1)
    life.stage("the first replica is ready", "True Partial", {"inference": "Deploying 1/3"})
    cluster.add_nodes(2)
    available = "True InferenceServiceAvailable"
    life.stage("all replicas are ready", available, {"inference": "Running 3/3"})

    broken = with_behaviour(plain, 0, behaviour=UNPULLABLE)
    update(service, broken, "svc-inference-2")
    life.stage("an update fails at its first replica", "True Partial",
               {"inference": "Deploying 2/3"})  # fmt: skip
    update(service, broken, "svc-inference-1", "svc-inference-0")
    life.stage("the failing update is on all replicas", processing, {"inference": "Deploying 0/3"})
    life.stage("the failing update, with failures of pods", processing, {"inference": "Failed 0/3"},
               failures=service.wait_failed(*(f"svc-inference-{i}" for i in range(3))))  # fmt: skip

    service.apply(plain)
    life.stage("the image is fixed", available, {"inference": "Running 3/3"})
    service.apply(inputs.service("svc", inputs.role("inference", "worker", 0, gpus=8)))
    life.stage("scaled to zero", "False Parked", {"inference": "Running 0/0"})
    finish(life, request, "independent")


@pytest.mark.proves("Status reports what a gateway rejects (stand-in controller)")
def test_router_status_reports_gateway(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    cluster.add_nodes(1)
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    gateway = {"gatewayClassName": "stand-in", "listeners": [listener]}
    service = LiveService(cluster, namespace, routers.routed("default", gateway=gateway))
    life = Life(service)
    service.apply()
    available = "True InferenceServiceAvailable"
    ready = {"inference": "Running 2/2"}
    life.stage("no gateway has reported status", available, ready)
    with GatewayStandIn(cluster, namespace, delay=0.2) as stand_in:
        stand_in.rejected["HTTPRoute"] = "NotAllowedByListeners"
        life.stage("the route is rejected", "False RouteNotAccepted", ready)
        stand_in.rejected = {"InferencePool": "InvalidExtensionRef"}
        life.stage("the pool is rejected", "False PoolNotAccepted", ready)
        stand_in.rejected = {"Gateway": "AddressNotAssigned"}
        life.stage("the Gateway is not ready", "False GatewayNotReady", ready)
        stand_in.rejected = {}
        life.stage("all is accepted", available, ready)
    finish(life, request, "router")
