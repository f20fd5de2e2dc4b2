"""Outputs in structural fields are rejected; the message names field and fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from component.services import CAMEL, TEMPLATE

from fusioninfer_pulumi import ComponentType, InferenceService, InvalidServiceError, RoleArgs

STRUCTURE: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "roles[0].replicas": lambda role, output: {**role, "replicas": output},
    "roles[0].name": lambda role, output: {**role, "name": output},
    "roles[0].componentType": lambda role, output: {**role, "componentType": output},
    "roles[0].template": lambda role, output: {**role, "template": output},
    "roles[0].restartPolicy": lambda role, output: {**role, "restartPolicy": output},
    "roles[0].multinode.nodeCount": lambda role, output: {
        **role,
        "multinode": {"nodeCount": output},
    },
    "roles[0].template.spec.containers": lambda role, output: {
        **role,
        "template": {"spec": {"containers": output}},
    },
    "roles[0].template.spec.containers[0].name": lambda role, output: {
        **role,
        "template": {"spec": {"containers": [{**TEMPLATE["spec"]["containers"][0],
                                              "name": output}]}},
    },
}  # fmt: skip


@pytest.mark.parametrize("path", STRUCTURE)
def test_output_in_structural_field_is_rejected(engine: Any, path: str) -> None:
    lines: list[str] = []

    def program() -> None:
        output = pulumi.Output.from_input("text")
        args = {"roles": [STRUCTURE[path](CAMEL["roles"][0], output)]}
        with pytest.raises(InvalidServiceError) as caught:
            InferenceService("svc", args)
        lines.extend(str(caught.value).splitlines())

    assert engine.run(program).registered == []
    assert lines[0].startswith(f"svc: {path}: ")
    assert "got a pulumi Output; take it from pulumi.Config" in lines[0]
    assert "0x" not in "".join(lines)


def test_output_in_shell_arguments_is_rejected(engine: Any) -> None:
    def program() -> None:
        container = {
            **TEMPLATE["spec"]["containers"][0],
            "args": ["--model", pulumi.Output.from_input("m")],
        }
        role = {
            **CAMEL["roles"][0],
            "multinode": {"nodeCount": 2},
            "template": {"spec": {"containers": [container]}},
        }
        with pytest.raises(InvalidServiceError, match=r"args.*pulumi Output"):
            InferenceService("svc", {"roles": [role]})

    assert engine.run(program).registered == []


def test_models_reject_output_in_structural_field(engine: Any) -> None:
    def program() -> None:
        with pytest.raises(InvalidServiceError, match=r"RoleArgs: replicas: .*Output"):
            RoleArgs(
                name="a",
                component_type=ComponentType.WORKER,
                replicas=pulumi.Output.from_input(1),
                template=TEMPLATE,
            )

    engine.run(program)
