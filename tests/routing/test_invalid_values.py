"""Routers with invalid values are rejected, or all their objects can be rendered."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from profiles import examples
from routed import pair, routed
from samples import Manifest, assert_one_line_errors, is_plain_data, problems

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.routing.endpoint import find_endpoint

JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 3, 1.5, "", "x", "svc-pool", "*.x", [], {}, [None], [3], ["x"], {"x": 3},
    {"name": 3}, [{}], [{"name": "a"}], "Service", "0s", {"name": "svc-pool"},
)  # fmt: skip

FULL: dict[str, Any] = {
    "strategy": "prefix-cache",
    "scorers": {"prefix-cache": 2, "queue": 1},
    "httproute": {
        "hostnames": ["a.example.com", "*.example.com"],
        "rules": [
            {
                "name": "one",
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "filters": [
                    {"type": "RequestMirror", "requestMirror": {
                        "backendRef": {"name": "m", "namespace": "other", "port": 80}}}
                ],
                "backendRefs": [
                    {"name": "svc-pool", "port": 8000, "weight": 1},
                    {"kind": "InferencePool", "name": "svc-pool"},
                    {"name": "x", "namespace": "other", "port": 1},
                ],
                "timeouts": {"backendRequest": "1s"},
            },
            {},
        ],
    },
    "gateway": {
        "implementation": "istio",
        "gatewayClassName": "istio",
        "listeners": [
            {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
             "tls": {"certificateRefs": [{"name": "t", "namespace": "certs"}]},
             "allowedRoutes": {"namespaces": {"from": "Same"}, "kinds": [{"kind": "HTTPRoute"}]}}
        ],
        "annotations": {"a": "b"},
    },
    "endpointPicker": {
        "image": "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
        "family": "gaie-1.5",
        "replicas": 2,
        "resources": {"requests": {"cpu": "1"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "epp", "env": [{"name": "A", "value": "b"}]}]}},
        "args": ["--health-checking=true"],
        "metrics": "Authenticated",
        "tls": {"secretName": "s"},
    },
    "pool": {"protect": True},
    "networkPolicy": {"gateway": [{"podSelector": {}}]},
    "referenceGrants": True,
}  # fmt: skip
REFERENCED = {
    **FULL,
    "gateway": {"refs": [{"name": "g", "namespace": "infra", "sectionName": "https", "port": 443,
                          "listeners": [{**FULL["gateway"]["listeners"][0],
                                         "allowedRoutes": {"namespaces": {"from": "All"}}}]}]},
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def with_junk(router: Manifest, path: tuple[Any, ...], junk: Any) -> Manifest:
    broken = copy.deepcopy(router)
    holder: Any = broken
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = copy.deepcopy(junk)
    return broken


def is_accepted(manifest: Manifest) -> bool:
    """Return whether a manifest is accepted; check that its objects are plain data."""
    try:
        (args,) = load(manifest)
        plan = plan_service(args)
        objects = render(plan)
    except InvalidServiceError as rejected:
        assert_one_line_errors(rejected.findings)
        # The checks of a rejected document raise no other exception.
        assert problems(manifest)
        return False
    assert plan.routing is not None
    find_endpoint(plan.routing)
    assert objects
    assert all(is_plain_data(item) for item in objects)
    return True


PLACES = [(FULL, path) for path in places(FULL)] + [
    # The other fields are the same in both.
    (REFERENCED, path)
    for path in places(REFERENCED["gateway"], ("gateway",))
]


@pytest.mark.parametrize("router", [FULL, REFERENCED], ids=["managed", "referenced"])
def test_invalid_pod_fields_are_left_to_the_api_server(router: Manifest) -> None:
    assert is_accepted(routed(**router))


@given(st.sampled_from(PLACES), st.sampled_from(JUNK))
@examples(8)
def test_junk_is_rejected_or_rendered(place: Any, junk: Any) -> None:
    router, path = place
    is_accepted(routed(**with_junk(router, path, junk)))


@given(
    st.sampled_from((FULL, REFERENCED)),
    st.sampled_from((routed, pair)),
    st.randoms(use_true_random=False),
    st.integers(2, 6),
)
@examples(8)
def test_several_pieces_of_junk_are_rejected_or_rendered(
    router: Manifest, service: Any, chance: random.Random, pieces: int
) -> None:
    for _ in range(pieces):
        path = chance.choice(list(places(router)))
        router = with_junk(router, path, chance.choice(JUNK))
    is_accepted(service(**router))
