"""ModelServices become routes to the services that they select."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.modelplane_samples import (
    Manifest,
    deployment,
    engine,
    model_service,
    paired,
    proposed,
    released,
    selecting,
)
from importers.tests.reads import check, convert, read_source, reject, warn

GATEWAY = {"name": "inference-gateway", "namespace": "modelplane-system"}
RULE = {
    "matches": [{"path": {"type": "PathPrefix", "value": "/default/chat"}}],
    "filters": [
        {
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
        }
    ],
    "timeouts": {"request": "0s"},
}


def named(name: str, document: Manifest | None = None, **metadata: Any) -> Manifest:
    return {**(document or released()), "metadata": {"name": name, **metadata}}


def labeled(name: str, replicas: int = 1, **labels: str) -> Manifest:
    template = {"metadata": {"labels": labels}, "spec": {"engines": [engine()]}}
    return deployment({"replicas": replicas, "template": template}, name=name)


def routers(*documents: Manifest, lossy: bool = False) -> dict[str, Any]:
    """Return the `httproute` of each service's router by service name, or None without a router."""
    result = {}
    for manifest in convert(*documents, lossy=lossy):
        roles = [role for role in manifest["spec"]["roles"] if role["componentType"] == "router"]
        assert len(roles) <= 1
        result[manifest["metadata"]["name"]] = roles[0]["httproute"] if roles else None
    return result


def test_model_service_becomes_route_of_its_deployment() -> None:
    documents = released(), model_service()
    (item,) = convert(*documents)
    assert item["spec"]["roles"][-1] == {
        "name": "router",
        "componentType": "router",
        "scorers": {"prefix-cache": 2, "queue": 1},
        "httproute": {"rules": [RULE], "parentRefs": [GATEWAY]},
    }
    (plan,) = read_source(*documents).plans
    (route,) = [entry for entry in render(plan) if entry["kind"] == "HTTPRoute"]
    assert route["spec"]["parentRefs"] == [GATEWAY]
    assert [ref["name"] for ref in route["spec"]["rules"][0]["backendRefs"]] == ["md-pool"]
    assert any(
        "f#2: info: endpoints: the route attaches" in message for message in check(*documents)
    )


@pytest.mark.parametrize(
    ("document", "picker"),
    [
        (
            paired(),
            {"scorers": {"prefix-cache": 2, "queue": 1}, "endpointPicker": {"threshold": 64}},
        ),
        (proposed(), {}),
    ],
)
def test_prefill_decode_router_gets_the_route(document: Manifest, picker: Manifest) -> None:
    (item,) = convert(document, model_service())
    assert item["spec"]["roles"][2] == {
        "name": "router",
        "componentType": "router",
        **picker,
        "httproute": {"rules": [RULE], "parentRefs": [GATEWAY]},
    }
    assert not [entry for entry in warn(document, model_service()) if "route" in entry]


def test_early_deployment_is_selected_by_name() -> None:
    early = deployment({"replicas": 1, "engines": [engine()]})
    assert routers(early, model_service())["md"]["rules"] == [RULE]


def test_deployment_may_have_several_model_services() -> None:
    md = routers(released(), model_service(), model_service(name="also"))["md"]
    values = [rule["matches"][0]["path"]["value"] for rule in md["rules"]]
    assert values == ["/default/chat", "/default/also"]


def test_endpoints_are_selected_by_template_labels() -> None:
    documents = [labeled("a", tier="prod"), labeled("b", tier="test")]
    result = routers(*documents, model_service(selecting(tier="prod")))
    assert (result["a"]["rules"], result["b"]) == ([RULE], None)
    both = selecting(tier="prod", deployment="b")
    assert reject(*documents, model_service(both))[0].startswith(
        "f#3: endpoints[0]: cannot be carried over: selects no ModelDeployment"
    )


@pytest.mark.parametrize(
    ("entries", "weights"),
    [
        # One share for each entry, however many replicas it matches.
        (("a", "b"), {"a-pool": 1, "b-pool": 1}),
        (
            (selecting(80, deployment="a"), selecting(20, deployment="b")),
            {"a-pool": 4, "b-pool": 1},
        ),
        # Within an entry a share for each replica: three of a, one of b.
        ((selecting(tier="x"),), {"a-pool": 3, "b-pool": 1}),
        ((selecting(4, tier="x"), "c"), {"a-pool": 3, "b-pool": 1, "c-pool": 1}),
        # An endpoint belongs to the first entry that matches it.
        ((selecting(1, deployment="a"), selecting(1, tier="x")), {"a-pool": 1, "b-pool": 1}),
        (
            (selecting(1_000_000, deployment="b"), selecting(1, tier="x"), "c"),
            {"b-pool": 1_000_000, "a-pool": 1, "c-pool": 1},
        ),
        (
            (selecting(999_999, tier="x"), selecting(1_000_000, deployment="c")),
            {"a-pool": 749_999, "b-pool": 250_000, "c-pool": 1_000_000},
        ),
    ],
)  # fmt: skip
def test_requests_are_split_by_weights_and_replicas(
    entries: tuple[Any, ...], weights: dict[str, int]
) -> None:
    documents = [labeled("a", 3, tier="x"), labeled("b", 1, tier="x"), labeled("c", 1)]
    result = routers(*documents, model_service(*entries))
    (main,) = [name for name, entry in result.items() if entry and "rules" in entry]
    assert f"{main}-pool" == max(weights, key=lambda name: weights[name])
    (rule,) = result[main]["rules"]
    assert {ref["name"]: ref["weight"] for ref in rule["backendRefs"]} == weights
    other_items = {name: entry for name, entry in result.items() if name != main}
    for name, item in other_items.items():
        assert item == ({"routedBy": main} if f"{name}-pool" in weights else None)


def test_service_behind_another_route_may_have_its_own_route() -> None:
    documents = [named("a"), named("b"), model_service("a", "b"), model_service("b", name="b")]
    result = routers(*documents)
    assert [len(item["rules"]) for item in result.values()] == [1, 1]
    assert "routedBy" not in result["b"]


def test_cluster_in_endpoint_selector_becomes_an_annotation() -> None:
    (item,) = convert(released(), model_service(selecting(deployment="md", cluster="east")))
    assert item["metadata"]["annotations"] == {
        "fusioninfer.io/cluster-selector": "modelplane.ai/cluster=east"
    }


NOWHERE = (
    "cannot be carried over: selects no ModelDeployment of this input; add it as a document, or "
    "route to external endpoints with an HTTPRoute of your own"
)
ENDPOINT = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelEndpoint",
    "metadata": {"name": "saas"},
    "spec": {"url": "https://example.com/", "rewritePath": "/"},
}
REJECTED: list[tuple[list[Manifest], str]] = [
    ([released(), model_service("other")], f"f#2: endpoints[0]: {NOWHERE}"),
    (
        [{**released(), "metadata": {"name": "md", "namespace": "n"}}, model_service()],
        f"f#2: endpoints[0]: {NOWHERE}",
    ),
    (
        [released(), model_service("md", selecting(external="saas"))],
        f"f#2: endpoints[1]: {NOWHERE}",
    ),
    (
        [released(), ENDPOINT],
        (
            "f#2: spec: cannot be carried over: describes an inference API outside of the "
            "cluster, to which ModelServices can route; this is not supported: register it as a "
            "backend of an AI gateway, or route to it with an HTTPRoute and a Service of type "
            "ExternalName"
        ),
    ),
    (
        [
            released(),
            model_service(
                selecting(50, deployment="md", cluster="east"),
                selecting(50, deployment="md", cluster="west"),
            ),
        ],
        (
            "f#2: endpoints[1]: cannot be carried over: refers to replicas of md in another "
            "cluster; a service is in one cluster; deploy it to both, and split requests in "
            "front of them"
        ),
    ),
    (
        [
            named("a", released(clusterSelector={"matchLabels": {"zone": "a"}})),
            named("b", released(clusterSelector={"matchLabels": {"zone": "b"}})),
            model_service("a", "b"),
        ],
        (
            "f#3: endpoints[1]: cannot be carried over: b and a are in different clusters (zone); "
            "create a ModelService for each"
        ),
    ),
    (
        [released(), {**model_service(), "spec": {"endpoints": []}}],
        "f#2: endpoints: must contain at least 1 item, got none",
    ),
    (
        [released(), {**model_service(), "metadata": {"name": "chat", "labels": {"a": "b"}}}],
        (
            "f#2: metadata.labels.a: cannot be carried over: is not supported here; set it on "
            "the service"
        ),
    ),
]


@each_row(("documents", "expected"), REJECTED)
def test_unsupported_endpoints_are_rejected(documents: list[Manifest], expected: str) -> None:
    assert reject(*documents) == [expected]
    if "cannot be carried over" in expected:
        assert reject(*documents, lossy=True) == []


def test_repeated_entry_is_reported() -> None:
    assert "f#2: info: endpoints[1]: repeats the entry for md; ignored" in check(
        released(), model_service("md", "md")
    )


def test_deployment_without_model_service_has_no_route() -> None:
    assert routers(released()) == {"md": None}
