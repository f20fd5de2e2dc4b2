"""A router without an endpoint picker: its route leads to a Service."""

from __future__ import annotations

from typing import Any

from routed import ROUTE, objects, only, pair, routed
from rows import each_row
from samples import Manifest, listening, plan_of, problems, rendered, role, warnings

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.cli.plan_output import PlanView, draw_mermaid
from fusioninfer_pulumi.component.status import find_rejection
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.routing.endpoint import find_endpoint

OFF = {"enabled": False}


def behind_service(*roles: Manifest, metadata: Any = None, **fields: Any) -> Manifest:
    return routed(*roles, metadata=metadata, **{"endpointPicker": OFF, **fields})


def test_no_picker_objects_are_rendered() -> None:
    kinds = {manifest["kind"] for manifest in rendered(behind_service())}
    assert kinds == {"LeaderWorkerSet", "Service", "HTTPRoute"}


def test_pods_equal_those_with_a_picker() -> None:
    assert objects(behind_service(), "LeaderWorkerSet") == objects(routed(), "LeaderWorkerSet")


def test_route_has_the_port_of_the_engine() -> None:
    (rule,) = only(behind_service(listening("inference", 9000)), "HTTPRoute")["spec"]["rules"]
    assert rule["backendRefs"] == [{"kind": "Service", "name": "svc", "port": 9000}]
    assert rule["timeouts"] == {"request": "0s"}


@each_row(
    ("fields", "at"),
    [
        ({"strategy": "queue-size"}, "strategy"),
        ({"scorers": {"queue": 1}}, "scorers"),
        ({"endpointPickerConfig": "plugins: []\n"}, "endpointPickerConfig"),
        ({"pool": {"protect": True}}, "pool"),
        ({"modelRewrites": [{"models": ["a"], "targets": [{"model": "b"}]}]}, "modelRewrites"),
        ({"httproute": {**ROUTE, "split": [{"service": "next", "weight": 1}]}}, "httproute.split"),
    ],
)
def test_picker_fields_without_picker_are_rejected(fields: Manifest, at: str) -> None:
    assert problems(behind_service(**fields)) == [
        f"roles[0].{at}: has no effect with endpointPicker.enabled: false; remove one of them"
    ]


def test_prefill_and_decode_are_not_paired() -> None:
    warned = warnings(pair(endpointPicker=OFF))
    assert any("no endpoint picker: nothing pairs prefill with decode" in item for item in warned)
    service = only(pair(endpointPicker=OFF), "Service")
    assert service["spec"]["selector"]["fusioninfer.io/component-type"] == "decoder"


def test_service_is_the_endpoint_only_without_a_route() -> None:
    plan = plan_of(behind_service())
    assert plan.routing is not None
    result = find_endpoint(plan.routing)
    assert result is not None
    assert (result.host, plan.clients_use_service) == ("svc.example.com", False)
    assert plan_of(behind_service(httproute=None)).clients_use_service


def test_unaccepted_route_is_reported_as_rejection() -> None:
    plan = plan_of(behind_service())
    condition = {"type": "ResolvedRefs", "status": "False", "message": "no Service"}
    state = {
        "status": {"parents": [{"parentRef": {"name": "my-gateway"}, "conditions": [condition]}]}
    }
    assert plan.routing is not None
    (reason, _) = find_rejection(plan, {"svc-httproute": state}) or ("", "")
    assert reason == "RouteNotAccepted"


def test_chart_ends_at_the_service() -> None:
    chart = draw_mermaid([PlanView(plan_of(behind_service()))])
    assert "picker" not in chart
    assert '  entry["Service svc"]\n' in chart
    assert "  entry --> role0\n" in chart
    assert chart.endswith('  client(["clients"]) --> hop0 --> hop1 --> hop2 --> entry\n')


def test_queue_target_needs_an_endpoint_picker() -> None:
    followed = {"engine": "KEDA", "minReplicas": 0, "maxReplicas": 2, "target": "queue",
                "prometheus": "http://p:9090"}  # fmt: skip
    manifest = behind_service(role(autoscaling=followed))
    assert any("requires endpointPicker.enabled: true" in problem for problem in problems(manifest))


def named(name: str, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {"name": name}}


def between(*manifests: Manifest) -> list[str]:
    plans = plan_services([args for manifest in manifests for args in load(manifest)])
    return [str(finding) for plan in plans for finding in plan.findings]


def test_split_to_service_without_pool_is_reported() -> None:
    split = {**ROUTE, "split": [{"service": "next", "weight": 1}]}
    front = named("front", routed(httproute=split))
    other = named("next", behind_service(httproute={"routedBy": "front"}))
    (expected,) = [item for item in between(front, other) if "next has no InferencePool" in item]
    assert expected.startswith("roles[0].httproute.split[0].service: ")


def test_service_in_rules_of_another_route_gets_requests() -> None:
    rules = [{"backendRefs": [{"name": "next", "port": 8000}]}]
    other = named("next", behind_service(httproute={"routedBy": "front"}))
    front = named("front", behind_service(httproute={**ROUTE, "rules": rules}))
    assert not any("this service receives no requests" in item for item in between(front, other))
