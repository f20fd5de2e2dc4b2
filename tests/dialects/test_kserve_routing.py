"""Routes, Gateways and the endpoint picker of an LLMInferenceService."""

from __future__ import annotations

from typing import Any

import pytest
from dialects.kserve_samples import ROUTER, Manifest, llm
from dialects.reads import spec, warned


def router(document: Manifest) -> Manifest:
    (found,) = (each for each in spec(document)["roles"] if each["componentType"] == "router")
    return dict(found)


def test_a_managed_route_has_kserves_paths() -> None:
    made = router(llm(router=ROUTER, metadata={"namespace": "team"}))
    assert made["gateway"] == {}
    first, *_, last = made["httproute"]["rules"]
    assert first["matches"] == [
        {"path": {"type": "PathPrefix", "value": "/team/llm/v1/completions"}}
    ]
    assert first["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] == "/v1/completions"
    assert last["matches"][0]["path"]["value"] == "/team/llm"
    assert made["scorers"] == {"prefix-cache": 2, "load": 1}


def test_references_to_gateways_and_a_route_of_its_own() -> None:
    refs = [{"name": "my-custom-gateway", "namespace": "istio-system"}]
    own = {"hostnames": ["llm.example.com"], "rules": [{"matches": [{"path": {"value": "/"}}]}]}
    made = router(
        llm(router={**ROUTER, "route": {"http": {"spec": own}}, "gateway": {"refs": refs}})
    )
    assert (made["gateway"], made["httproute"]) == ({"refs": refs}, own)


def test_references_to_routes() -> None:
    document = llm(
        router={"route": {"http": {"refs": [{"name": "r", "namespace": "n"}]}}, "scheduler": {}}
    )
    made = router(document)
    assert made["httproute"] == {"refs": [{"name": "r", "namespace": "n"}]}
    assert "gateway" not in made
    (told,) = (each for each in warned(document) if "router.route.http.refs: " in each)
    assert told.endswith("until the route's backendRefs name InferencePool llm-pool")


def test_without_a_gateway_the_route_attaches_where_kserves_do() -> None:
    made = router(llm(router={"route": {}, "scheduler": {}}))
    assert made["gateway"] == {"refs": [{"name": "kserve-ingress-gateway", "namespace": "kserve"}]}


@pytest.mark.parametrize("form", ["mapping", "text"])
def test_the_pickers_own_configuration(form: str) -> None:
    plugins = {"plugins": [{"type": "queue-scorer"}]}
    given: Any = plugins if form == "mapping" else "plugins:\n- type: queue-scorer\n"
    made = router(llm(router={**ROUTER, "scheduler": {"config": {"inline": given}, "replicas": 2}}))
    assert made["endpointPickerConfig"] == "plugins:\n- type: queue-scorer\n"
    assert made["endpointPicker"]["replicas"] == 2
    assert "scorers" not in made


def test_the_pickers_pods() -> None:
    template = {
        "nodeSelector": {"a": "b"},
        "containers": [
            {"name": "main", "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
             "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}},
        ],
    }  # fmt: skip
    made = router(llm(router={**ROUTER, "scheduler": {"template": template, "labels": {"x": "y"}}}))
    assert made["endpointPicker"] == {
        "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
        "resources": {"limits": {"cpu": "1"}},
        "template": {
            "metadata": {"labels": {"x": "y"}},
            "spec": {
                "nodeSelector": {"a": "b"},
                "containers": [{"name": "epp", "env": [{"name": "A", "value": "b"}]}],
            },
        },
    }
