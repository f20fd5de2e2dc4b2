"""Properties of all services: P/D pairs are complete, and no user value is lost."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, strategies as st
from profiles import examples
from strategies import PLAIN, services

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render_workloads
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = dict[str, Any]
ROUTE = {"parentRefs": [{"name": "gateway"}]}


def planned(manifest: Manifest) -> ServicePlan:
    (args,) = load(manifest)
    return plan_service(args)


def text(plan: ServicePlan) -> str:
    return json.dumps(list(render_workloads(plan)), ensure_ascii=False)


def with_router(manifest: Manifest, **more: Any) -> Manifest:
    changed = copy.deepcopy(manifest)
    router = {"name": "router", "componentType": "router", "httproute": ROUTE, **more}
    changed["spec"]["roles"].append(router)
    return changed


@examples(0.5)
@given(
    services(fields=PLAIN),
    st.sampled_from(("prefix-cache", "kv-cache-utilization", "queue-size", "lora-affinity")),
)
def test_router_does_not_change_workloads(manifest: Manifest, strategy: str) -> None:
    assert text(planned(with_router(manifest, strategy=strategy))) == text(planned(manifest))


def has_at_most_two_roles_without_sidecar(manifest: Manifest) -> bool:
    return len(manifest["spec"]["roles"]) < 3 and "routing-sidecar" not in str(manifest)


@examples(0.5)
@given(
    services(fields=PLAIN, wanted=has_at_most_two_roles_without_sidecar),
    st.sampled_from((True, True, True, False)),
)
def test_prefill_decode_pair_is_complete_or_rejected(manifest: Manifest, generate: bool) -> None:
    roles = manifest["spec"]["roles"]
    if len(roles) == 1:  # one engine for both, so that they agree
        roles.append({**roles[0], "name": f"{roles[0]['name']}-too"})
    # Fields generated for a gang may not be valid for a prefill/decode pair, and vice versa.
    manifest["spec"].pop("schedulingStrategy", None)
    for role, component_type in zip(roles, ("prefiller", "decoder"), strict=True):
        role.pop("startupPolicy", None)
        role["componentType"] = component_type
        if generate:
            role["kvTransfer"] = {}
    plan = planned(with_router(manifest, strategy="pd-disaggregation"))
    if filter_errors(plan.findings):
        return
    for workload in render_workloads(plan):
        if workload["kind"] != "LeaderWorkerSet":
            continue
        body = workload["spec"]["leaderWorkerTemplate"]
        role = next(
            role
            for role in roles
            if role["name"] == workload["metadata"]["labels"]["fusioninfer.io/role-name"]
        )
        for key in ("leaderTemplate", "workerTemplate"):
            if key in body:
                fields = role.get(key) or role["template"]
                is_consistent(body[key]["spec"], fields["spec"])
        lead = body.get("leaderTemplate") or body["workerTemplate"]
        sidecars = [c for c in lead["spec"].get("initContainers", ()) if c["name"] == "pd-sidecar"]
        assert len(sidecars) == (role["componentType"] == "decoder")
        if "leaderTemplate" in body:
            inits = body["workerTemplate"]["spec"].get("initContainers", ())
            assert all(init["name"] != "pd-sidecar" for init in inits)


def is_consistent(made: Manifest, fields: Manifest) -> None:
    containers = [*made["containers"], *made.get("initContainers", ())]
    names = [item["name"] for item in containers]
    assert len(set(names)) == len(names)
    volumes = [volume["name"] for volume in made.get("volumes", ())]
    assert len(set(volumes)) == len(volumes)
    assert [
        volume for volume in made.get("volumes", ()) if volume in fields.get("volumes", ())
    ] == list(fields.get("volumes", ()))
    for container in containers:
        ports = [
            (port["containerPort"], port.get("protocol")) for port in container.get("ports", ())
        ]
        assert len(set(ports)) == len(ports)
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
        assert len(set(mounts)) == len(mounts)
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= set(volumes)
        env = [variable["name"] for variable in container.get("env", ())]
        assert len(set(env)) == len(env)
    for before in fields["containers"]:
        after = next(
            container for container in made["containers"] if container["name"] == before["name"]
        )
        assert after["image"] == before["image"]
        assert list(after.get("env", ()))[: len(before.get("env", ()))] == list(
            before.get("env", ())
        )
