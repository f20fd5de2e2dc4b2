"""Routes of two services for the same requests."""

from __future__ import annotations

from typing import Any

from routed import ROUTE, router
from rows import each_row
from samples import Manifest, role, service, template

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.loading import load

V1 = {"path": {"type": "PathPrefix", "value": "/v1"}}
HEADER = {"headers": [{"name": "model", "value": "chat"}]}


def routed_by(name: str, namespace: str = "default", **route: Any) -> Manifest:
    fields = {**ROUTE, **route}
    return service(
        router(httproute={key: value for key, value in fields.items() if value is not None}),
        role(template=template()),
        metadata={"name": name, "namespace": namespace},
    )


def conflicts(*manifests: Manifest) -> list[str]:
    plans = plan_services([args for manifest in manifests for args in load(manifest)])
    return [
        plan.service
        for plan in plans
        for finding in plan.findings
        if finding.rule == "routes-conflict"
    ]


def test_conflicting_routes_are_reported_at_the_later_one() -> None:
    one, other = routed_by("a"), routed_by("b")
    assert conflicts(one, other) == ["b"]
    assert conflicts(other, one) == ["a"]
    assert conflicts(one, other, routed_by("c")) == ["b", "c", "c"]
    assert conflicts(one, routed_by("b", "elsewhere")) == ["b"]
    anywhere = {"hostnames": None}
    assert conflicts(routed_by("a", **anywhere), routed_by("b", **anywhere)) == ["b"]
    shared = {"hostnames": ["x.example.com", "svc.example.com"]}
    assert conflicts(one, routed_by("b", **shared)) == ["b"]
    v1 = {"rules": [{"matches": [V1]}, {"matches": [HEADER]}]}
    assert conflicts(routed_by("a", **v1), routed_by("b", rules=[{"matches": [HEADER]}])) == ["b"]


@each_row(
    "other",
    [
        {"hostnames": ["b.example.com"]},
        # The more specific host name gets the request.
        {"hostnames": ["*.example.com"]},
        {"hostnames": None},
        {"parentRefs": [{"name": "another"}]},
        {"parentRefs": [{"name": "my-gateway"}]},
        {"rules": [{"matches": [HEADER]}]},
    ],
)
def test_routes_for_different_requests_do_not_conflict(other: Any) -> None:
    assert conflicts(routed_by("a"), routed_by("b", **other)) == []


def test_routes_on_different_listeners_do_not_conflict() -> None:
    def at(section: str) -> dict[str, Any]:
        return {"parentRefs": [{**ROUTE["parentRefs"][0], "sectionName": section}]}

    assert conflicts(routed_by("a", **at("http")), routed_by("b", **at("https"))) == []
    assert conflicts(routed_by("a", **at("http")), routed_by("b", **at("http"))) == ["b"]
