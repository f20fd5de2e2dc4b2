"""Users' complete endpoint picker configurations: YAML, kind and plugin types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from picker_configs import base, document
from rows import each_row

from fusioninfer_pulumi.checks.routing_checks import check_config
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES, LLM_D_API, X_K8S_API

TYPE = "plugins[0].type"


def check(text: str, family: str, *, is_custom: bool = False) -> list[str]:
    return [str(finding) for finding in check_config(text, FAMILIES[family], is_custom=is_custom)]


@each_row("family", [name for name, row in FAMILIES.items() if X_K8S_API in row.api_versions])
@each_row("name", ["prefix-cache", "queue-size", "lora-affinity", "custom"])
def test_documented_configuration_is_accepted(family: str, name: str) -> None:
    assert check(document(name), family) == []


@pytest.mark.parametrize("family", ["gaie-1.2", "gaie-1.5"])
def test_plugin_of_another_family_names_that_family(family: str) -> None:
    findings = check(document("pd-disaggregation"), family)
    assert findings == [
        f'plugins[{index}].type: {family} has no plugin "{plugin}" and would exit; '
        f"available in llm-d-0.9, llm-d-0.10{newest}"
        for index, (plugin, newest) in enumerate(
            [
                ("pd-profile-handler", ""),
                ("prefill-header-handler", ", llm-d-1.0"),
                *[("by-label", ", llm-d-1.0")] * 2,
            ]
        )
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("plugins: [", "not YAML: while parsing a flow node"),
        ("[" * 700, "not YAML: nested too deeply"),
        ("", "must be a mapping, got an empty document"),
        ("- a", "must be a mapping, got "),
        ("? [a]\n: b\n", "not YAML: while constructing a mapping"),
        (
            base(kind="ConfigMap"),
            'kind: must be EndpointPickerConfig for gaie-1.2, got "ConfigMap"',
        ),
        (base(apiVersion=LLM_D_API), "apiVersion: must be inference.networking.x-k8s.io/v1alpha1"),
        (base(plugins=[{"type": "mine"}]), f'warning: {TYPE}: gaie-1.2 has no plugin "mine"'),
    ],
)
def test_invalid_configuration_is_rejected(text: str, finding: str) -> None:
    (findings,) = check(text, "gaie-1.2")
    assert findings.startswith(finding)


@each_row(
    "changes",
    [
        {"kind": "absent", "apiVersion": "absent"},
        {"plugins": "x"},
        {"plugins": [1, {}, {"type": []}]},
        {"plugins": [{"type": "queue-scorer", "parameters": {"date": "2024-13-45"}}]},
        {"foo": 1},
    ],
)
def test_other_fields_are_left_to_the_picker(changes: dict[str, Any]) -> None:
    assert check(base(**changes), "gaie-1.2") == []


def test_custom_image_may_have_other_plugins() -> None:
    text = base(plugins=[{"type": "by-label"}])
    assert check(text, "gaie-1.5")[0].startswith(f"{TYPE}: gaie-1.5 has no plugin")
    assert check(text, "gaie-1.5", is_custom=True)[0].startswith(f"warning: {TYPE}: ")


def test_later_documents_and_aliases_are_not_read() -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
    )
    assert check(bomb, "gaie-1.2") == []
    assert check(base() + "---\nkind: Other\n", "gaie-1.2") == []


@given(st.text())
def test_random_text_raises_nothing(text: str) -> None:
    check(text, "gaie-1.2")
