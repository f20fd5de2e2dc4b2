"""LLMInferenceServiceConfigs, which are merged below a service."""

from __future__ import annotations

import pytest
from importers.kserve_samples import PRESET, URI, Manifest, config, container, llm, pod
from importers.reads import problems, said, source, spec, warned


def test_configs_are_merged_below_the_service() -> None:
    below = config(
        "gpu",
        model={"uri": "hf://a/b"},
        replicas=4,
        template={
            "nodeSelector": {"pool": "gpu"},
            "containers": [
                {"name": "main", "image": "below", "env": [{"name": "A", "value": "1"}]},
                {"name": "beside", "image": "b"},
            ],
        },
    )
    between = config("more", template={"containers": [{"name": "main", "env": [
        {"name": "A", "value": "2"}, {"name": "B", "value": "3"}]}]})  # fmt: skip
    own = llm(baseRefs=[{"name": "gpu"}, {"name": "more"}], model={"uri": URI})
    made = spec(below, between, own)
    (role,) = made["roles"]
    assert (made["model"]["uri"], role["replicas"]) == (URI, 4)
    assert role["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert [each["name"] for each in role["template"]["spec"]["containers"]] == ["main", "beside"]
    assert container(role)["image"] == "below"
    env = [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]
    assert container(role)["env"] == [*PRESET["env"], *env]
    assert container(role)["resources"] == {"limits": {"nvidia.com/gpu": "1"}}


def test_a_configs_templates_name_fields_of_the_service() -> None:
    word = "--x={{ .Spec.Model.Name }}/{{.ObjectMeta.Namespace}}/{{- .ObjectMeta.Name -}}"
    below = config("base", template=pod(command=["vllm", "serve"], args=[word]), router={
        "scheduler": {"replicas": 2}})  # fmt: skip
    own = llm(baseRefs=[{"name": "base"}], template=None, router={"scheduler": {}},
              model={"uri": URI, "name": "m"})  # fmt: skip
    role, route = spec(below, own)["roles"]
    assert "--x=m/default/llm" in container(role)["args"]
    assert route["endpointPicker"]["replicas"] == 2


def test_what_is_wrong_with_a_merged_value_is_told_where_it_stands() -> None:
    limits = {"limits": {"nvidia.com/gpu": "two"}}
    below = config("base", template={"containers": [{"name": "main", "resources": limits}]})
    own = llm(baseRefs=[{"name": "base"}], template=None)
    (told,) = problems(below, own)
    assert told.startswith("f: template.containers[0].resources.limits[nvidia.com/gpu]: "), told


def test_a_config_that_nobody_names_and_kserves_own() -> None:
    documents = config("idle"), llm(baseRefs=[{"name": "kserve-config-llm-template"}])
    assert problems(*documents) == []
    told = "no LLMInferenceService of this input is based on it; left out"
    assert warned(*documents) == [f"f: warning: {told}"]


def test_what_is_said_of_a_config_is_said_with_the_service_that_is_based_on_it() -> None:
    below = config("base", replicas=4, model={"uri": "hf://a/b"})
    (plan,) = source(below, llm(baseRefs=[{"name": "base"}], replicas=2)).plans
    told = [str(each) for each in plan.findings]
    assert "info: replicas: llm says otherwise, which holds" in told
    assert "info: model.uri: llm says otherwise, which holds" in told


def test_a_config_of_kserves_own_namespace_is_found_after_the_services() -> None:
    shared = config("gpu", replicas=4)
    shared["metadata"]["namespace"] = "kserve"
    own = llm(baseRefs=[{"name": "gpu"}], metadata={"namespace": "team"})
    assert spec(shared, own)["roles"][0]["replicas"] == 4
    nearer = config("gpu", replicas=2)
    nearer["metadata"]["namespace"] = "team"
    assert spec(shared, nearer, own)["roles"][0]["replicas"] == 2
    elsewhere = config("gpu")
    elsewhere["metadata"]["namespace"] = "other"
    (told,) = problems(elsewhere, own)
    assert "is not in this input, nor one of kserve" in told


def spread(key: str, skew: int) -> Manifest:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("field", "below", "above", "merged"),
    [
        (
            "topologySpreadConstraints",
            [spread("zone", 1), spread("host", 1)],
            [spread("zone", 2), spread("rack", 1)],
            [
                spread("zone", 2),
                spread("host", 1),
                spread("rack", 1),
            ],
        ),
        (
            "resourceClaims",
            [{"name": "nic", "resourceClaimName": "a"}],
            [{"name": "disk", "resourceClaimName": "b"}],
            [
                {"name": "nic", "resourceClaimName": "a"},
                {"name": "disk", "resourceClaimName": "b"},
            ],
        ),
        ("schedulingGates", [{"name": "a"}], [{"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        ("tolerations", [{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
    ],
)
def test_lists_are_merged_by_the_keys_of_kubernetes_types(
    field: str, below: list[Manifest], above: list[Manifest], merged: list[Manifest]
) -> None:
    own = llm(baseRefs=[{"name": "base"}], template={**pod(), field: above})
    (role,) = spec(config("base", template={field: below}), own)["roles"]
    assert role["template"]["spec"][field] == merged


def test_items_of_one_key_become_one_and_are_told() -> None:
    own = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
    below = config(
        "base", template={"containers": [{"name": "main", "ports": [{"containerPort": 1}]}]}
    )
    documents = below, llm(baseRefs=[{"name": "base"}], template=pod(ports=own))
    (role,) = spec(*documents)["roles"]
    assert container(role)["ports"] == [{"containerPort": 1}, own[1]]
    told = "KServe merges it with a later item of the list, which holds"
    at = "f#2: info: template.containers[0].ports[0]"
    assert {f"{at}.containerPort: {told}", f"{at}.protocol: {told}"} <= set(said(*documents))


def test_two_sources_of_one_volume_are_refused() -> None:
    below = config("base", template={"volumes": [{"name": "data", "emptyDir": {}}]})
    above = [{"name": "data", "hostPath": {"path": "/data"}}]
    (told,) = problems(
        below, llm(baseRefs=[{"name": "base"}], template={**pod(), "volumes": above})
    )
    assert told == (
        "f#2: template.volumes[0]: takes one source, got emptyDir and hostPath; remove one of them"
    )
