"""Pod templates written with pulumi_kubernetes are converted to Kubernetes' names."""

from __future__ import annotations

import enum
import re
from typing import Any

import pulumi_kubernetes.core.v1._inputs as core
import pulumi_kubernetes.meta.v1._inputs as meta
import pytest
from rows import each_row

from fusioninfer_pulumi import InvalidServiceError, RoleArgs
from fusioninfer_pulumi.kube.typed_args import USER_KEY_MAPS, kubernetes_name, to_kubernetes


def properties() -> dict[str, tuple[str, str]]:
    """Map Python names of pod template properties to Kubernetes names and types."""
    result: dict[str, tuple[str, str]] = {}
    waiting, seen = ["PodTemplateSpecArgs"], set()
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        args_class: Any = getattr(core, kind, None) or getattr(meta, kind)
        for python, member in vars(args_class).items():
            if isinstance(member, property) and hasattr(member.fget, "_pulumi_name"):
                returned = str(member.fget.__annotations__["return"])
                earlier = result.get(python, ("", ""))[1]
                result[python] = (member.fget._pulumi_name, earlier + returned)
                waiting += re.findall(r"'(?:[\w.]*\.)?(\w+Args)'", returned)
    return result


def test_names_equal_those_of_pulumi_kubernetes() -> None:
    kept = properties()
    names = {name for name, _ in kept.values()}
    assert {python: kubernetes_name(python) for python in kept} == {
        python: name for python, (name, _) in kept.items()
    }
    assert {kubernetes_name(name) for name in names} == names
    assert {name for name, returned in kept.values() if "Mapping" in returned} == USER_KEY_MAPS


def test_enum_members_and_text_subclasses_become_plain_text() -> None:
    class Image(str, enum.Enum):
        VLLM = "vllm/vllm-openai:v0.32.0"

    class Text(str): ...

    values = to_kubernetes([Image.VLLM, Text("--model")])
    assert values == [Image.VLLM.value, "--model"]
    assert {*map(type, values)} == {str}


def test_fields_are_renamed_at_every_depth() -> None:
    value = {
        "spec": {
            "host_pid": True,
            "init_containers": [
                {"env": [{"value_from": {"secret_key_ref": {"name": "a", "key": "some_key"}}}]}
            ],
            "volumes": [{"persistent_volume_claim": {"claim_name": "b_c", "read_only": True}}],
        }
    }
    assert to_kubernetes(value) == {
        "spec": {
            "hostPID": True,
            "initContainers": [
                {"env": [{"valueFrom": {"secretKeyRef": {"name": "a", "key": "some_key"}}}]}
            ],
            "volumes": [{"persistentVolumeClaim": {"claimName": "b_c", "readOnly": True}}],
        }
    }


@each_row("field", sorted(USER_KEY_MAPS))
def test_user_keys_of_maps_are_kept(field: str) -> None:
    assert to_kubernetes({field: {"host_pid": "x"}}) == {field: {"host_pid": "x"}}


def test_snake_case_map_keeps_user_keys() -> None:
    value = {"node_selector": {"host_ip": "x"}, "match_labels": {"pod_ip": "y"}}
    expected = {"nodeSelector": {"host_ip": "x"}, "matchLabels": {"pod_ip": "y"}}
    assert to_kubernetes(value) == expected


def test_camel_case_and_outputs_are_kept(output: Any) -> None:
    value = {"containerPort": 1, "volumes": output({"host_ip": "x"})}
    assert to_kubernetes(value) == value


def test_field_in_both_spellings_is_rejected() -> None:
    pod = {"containers": [], "nodeSelector": {}, "node_selector": {}}
    with pytest.raises(InvalidServiceError, match="nodeSelector and node_selector") as rejected:
        RoleArgs(name="a", component_type="worker", template={"spec": pod})
    assert [finding.rule for finding in rejected.value.findings] == ["duplicate-key"]
