"""Typed dictionaries and constructors are derived from the models."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pulumi
import pytest

from fusioninfer_pulumi import api

ROOT = Path(__file__).parent.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_files_derived_from_models_are_current() -> None:
    # `make regenerate` writes them.
    generator = tool("args_dicts")
    expected = generator.files()
    assert {path: path.read_text(encoding="utf-8") for path in expected} == expected
    assert set(generator.STUBS.rglob("*.pyi")) <= set(expected)


def test_stub_constructors_take_the_dictionaries_of_their_models() -> None:
    stubs = tool("args_dicts").STUBS
    text = "\n".join(path.read_text(encoding="utf-8") for path in stubs.rglob("*.pyi"))
    taken = re.findall(r"def __init__\(self, \*\*fields: Unpack\[dicts\.(\w+)Dict\]\)", text)
    models = [name for name in api.public_types() if name.endswith("Args")]
    assert sorted(taken) == models


def test_input_that_type_checkers_accept_is_valid(output: Any) -> None:
    output("the fixture gives the program an event loop")
    kept: dict[str, Any] = {"__name__": "accepted"}
    text = (ROOT / "tests" / "typed_programs" / "accepted.py").read_text(encoding="utf-8")
    exec(compile(text, "accepted.py", "exec"), kept)
    (role,) = kept["typed"].roles
    (container,) = role.template["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 8000, "name": "http"}]
    assert isinstance(container["image"], pulumi.Output)
    (role,) = kept["mapped"].roles
    assert role.template == {
        "metadata": {"labels": {"team_name": "search"}},
        "spec": {
            "nodeSelector": {"disk_type": "nvme"},
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "ports": [{"containerPort": 8000, "name": "http"}],
                    "env": [{"name": "hf_home", "value": "/cache"}],
                }
            ],
        },
    }
