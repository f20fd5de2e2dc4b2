"""The endpoint picker's release, configuration and findings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from routed import LLM_D, ROUTE, V1_2, V1_5, only, pair, picker_container, routed
from rows import each_row
from samples import Manifest, container, plan_of, problems, role, template, warnings

AT = "roles[0].endpointPicker"


def picker(**fields: Any) -> Manifest:
    return routed(endpointPicker=fields)


def config(manifest: Manifest) -> Any:
    return yaml.safe_load(only(manifest, "ConfigMap")["data"]["config.yaml"])


IMAGES: dict[str, tuple[Manifest, str, str]] = {
    "the document's by default": (routed(strategy="queue-size"), V1_2, "gaie-1.2"),
    "llm-d's for prefill and decode": (pair(strategy="pd-disaggregation"), LLM_D, "llm-d-0.10"),
    "the document's for anything else": (pair(strategy="queue-size"), V1_2, "gaie-1.2"),
    "the one that is given": (picker(image=V1_5), V1_5, "gaie-1.5"),
    "a mirror of it": (picker(image="mirror.example/x/epp:v1.5.0"),
                       "mirror.example/x/epp:v1.5.0", "gaie-1.5"),
    "the family's newest": (picker(family="gaie-1.5"), V1_5, "gaie-1.5"),
    "one of our own": (picker(image="own.example/picker:7", family="gaie-1.4"),
                       "own.example/picker:7", "gaie-1.4"),
}  # fmt: skip


@each_row("case", IMAGES)
def test_image_decides_the_picker_family(case: str) -> None:
    manifest, image, family = IMAGES[case]
    router = plan_of(manifest).picker
    assert router is not None
    assert (router.epp.image, router.epp.family.name) == (image, family)
    assert picker_container(manifest)["image"] == image


def test_default_strategy_follows_from_roles() -> None:
    for manifest, plugin in ((routed(), "prefix-cache-scorer"), (pair(), "disagg-profile-handler")):
        assert plugin in {item["type"] for item in config(manifest)["plugins"]}


def test_custom_image_may_register_plugins() -> None:
    text = (
        "plugins: [{type: load-aware-scorer}]\nschedulingProfiles:\n"
        "- {name: default, plugins: [{pluginRef: load-aware-scorer, weight: 1}]}\n"
    )
    fields = {"image": "own.example/picker:7", "family": "gaie-1.5"}
    expected = "roles[0].endpointPickerConfig.plugins[0].type: gaie-1.5 has no plugin"
    (rejected,) = problems(routed(endpointPickerConfig=text, endpointPicker={"image": V1_5}))
    assert rejected.startswith(expected)
    assert not problems(routed(endpointPickerConfig=text, endpointPicker=fields))
    (warned,) = warnings(routed(endpointPickerConfig=text, endpointPicker=fields))
    assert warned.startswith(f"warning: {expected}")


def test_picker_uses_block_size_if_all_engines_agree() -> None:
    def sized(*sizes: int | None) -> Manifest:
        roles = [
            role(
                f"role-{index}",
                template=template(
                    container(args=["--model", "m", *([f"--block-size={size}"] if size else [])])
                ),
            )
            for index, size in enumerate(sizes)
        ]
        return routed(*roles, strategy="prefix-cache")

    def block(manifest: Manifest) -> Any:
        return config(manifest)["plugins"][0]["parameters"]["blockSize"]

    assert block(sized(None)) == 256, "64 tokens in characters, of which a token has about four"
    assert block(sized(128)) == 512
    assert block(sized(128, 128)) == 512
    assert block(sized(128, 32)) == 256
    assert block(sized(128, None)) == 256


def test_namespace_output_is_read_in_the_pod(output: Any) -> None:
    namespace = output("team-a")
    manifest = routed(metadata={"namespace": namespace})
    result = picker_container(manifest)
    assert "--pool-namespace=$(NAMESPACE)" in result["args"]
    assert result["env"][0] == {
        "name": "NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    }
    assert "--pool-namespace=default" in picker_container(routed())["args"]
    (finding,) = problems(
        routed(metadata={"namespace": namespace}, endpointPicker={"metrics": "Authenticated"})
    )
    assert finding.startswith("metadata.namespace: must be a string, got a pulumi Output")
    assert "names or queries of endpointPicker.metrics Authenticated contain it" in finding


def test_literal_credentials_in_the_template_are_warnings() -> None:
    env = [{"name": "HF_TOKEN", "value": "hf_x"}, {"name": "MODE", "value": "x"}]
    overrides = {"spec": {"containers": [{"name": "epp", "env": env}]}}
    (finding,) = warnings(picker(template=overrides))
    assert finding.startswith(
        f"warning: {AT}.template.spec.containers[0].env[0].value: HF_TOKEN is a credential"
    )
    assert "hf_x" not in finding


def test_summary_describes_the_strategy() -> None:
    def words(manifest: Manifest) -> str:
        router = plan_of(manifest).picker
        assert router is not None
        return router.epp.summary

    alone = words(routed(scorers={"prefix-cache": 100}))
    assert alone == "each request goes to the pod with the highest score: 100 x prefix match"
    assert words(routed()) == (
        "each request goes to the pod with the highest score: 3 x prefix match + "
        "2 x free KV cache + 2 x short queue"
    )
    assert "decode pod" in words(pair(httproute=ROUTE))
    custom = routed(
        endpointPickerConfig="plugins: [{type: queue-scorer}]\nschedulingProfiles:\n"
        "- {name: d, plugins: [{pluginRef: queue-scorer, weight: 1}]}\n"
    )
    assert words(custom) == "as configured in endpointPickerConfig"


@pytest.mark.parametrize(("image", "flag"), [(V1_2, ["vllm:kv_cache_usage_perc"]), (V1_5, [])])
def test_older_picker_gets_name_of_kv_cache_metric(image: str, flag: list[str]) -> None:
    manifest = routed(role(), strategy="queue-size", endpointPicker={"image": image})
    args = picker_container(manifest)["args"]
    assert [arg.partition("=")[2] for arg in args if "kv-cache-usage" in arg] == flag
