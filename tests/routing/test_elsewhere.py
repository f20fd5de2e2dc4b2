"""Routes that are made elsewhere: `refs` and `routedBy` of a router's `httproute`."""

from __future__ import annotations

from typing import Any

import pytest
from routed import objects, only, routed
from samples import Manifest, kinds, problems, said, warnings

from fusioninfer_pulumi.cli.plan_output import mermaid
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.planning import plan_service

NEAR: Manifest = {"refs": [{"name": "chat"}, {"name": "batch"}]}
FAR: Manifest = {"refs": [{"name": "chat", "namespace": "gateways"}, {"name": "batch"}]}
AT = "roles[0].httproute"


def test_no_route_is_made_beside_those_that_exist() -> None:
    made = kinds(routed(httproute=NEAR))
    assert "InferencePool/svc-pool" in made
    assert "HTTPRoute/svc-httproute" not in made
    assert not warnings(routed(httproute=NEAR))
    (told,) = (each for each in said(routed(httproute=NEAR)) if f"{AT}.refs: " in each)
    assert "name InferencePool svc-pool of group inference.networking.k8s.io" in told


@pytest.mark.parametrize("implementation", ["istio", "gke"])
def test_what_the_gateway_needs_beside_the_route_is_made(implementation: str) -> None:
    more = {"gateway": {"implementation": implementation}}
    own, other = routed(**more, httproute={"parentRefs": [{"name": "g"}]}), routed(
        **more, httproute=NEAR
    )  # fmt: skip
    assert set(kinds(own)) - set(kinds(other)) == {"HTTPRoute/svc-httproute"}


def test_a_route_of_another_namespace_needs_a_grant_beside_the_pool() -> None:
    (asked,) = warnings(routed(httproute=FAR))
    assert f"{AT}.refs[0].namespace: routes of namespace gateways may not lead to" in asked
    assert not objects(routed(httproute=FAR), "ReferenceGrant")
    granted = routed(httproute=FAR, referenceGrants=True)
    assert not warnings(granted)
    grant = only(granted, "ReferenceGrant")
    assert (grant["metadata"]["namespace"], grant["metadata"]["name"]) == (
        "default",
        "gateways.svc-pool",
    )
    assert grant["spec"] == {
        "from": [
            {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "gateways"}
        ],
        "to": [
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
        ],
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a route's field": (
        {"httproute": {**NEAR, "hostnames": ["a.example.com"]}},
        (
            f"{AT}.hostnames: belongs to a route, and none is made here: another one leads to the "
            "pool (refs); give one or the other"
        ),
    ),
    "both": ({"httproute": {**NEAR, "routedBy": "other"}}, f"{AT}.refs: belongs to a route"),
    "none": ({"httproute": {"refs": []}}, f"{AT}.refs: "),
    "twice": (
        {"httproute": {"refs": [{"name": "a"}, {"name": "a"}]}},
        f'{AT}.refs[1].name: "a" is named twice',
    ),
    "a Gateway": (
        {"httproute": NEAR, "gateway": {}},
        "roles[0].gateway: would be a Gateway without a route (httproute.refs)",
    ),
    "itself": ({"httproute": {"routedBy": "svc"}}, f"{AT}.routedBy: is this service"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_says_two_things_is_refused(case: str) -> None:
    fields, wanted = REFUSED[case]
    assert any(wanted in each for each in problems(routed(**fields)))


def test_the_drawing_shows_them() -> None:
    (args,) = load(routed(httproute=FAR))
    assert 'route["HTTPRoute<br/>chat<br/>batch"]' in mermaid(plan_service(args))
