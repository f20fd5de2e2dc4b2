"""The typed dictionaries and constructors follow from the models."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pulumi

import fusioninfer_pulumi.api

ROOT = Path(__file__).parent.parent
API = Path(str(fusioninfer_pulumi.api.__file__)).parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_current() -> None:
    # `make regenerate` writes it anew.
    generator = tool("args_dicts")
    assert generator.TARGET.read_text(encoding="utf-8") == generator.text()


def test_every_models_constructor_takes_its_dictionary() -> None:
    found = {}
    for path in API.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                taken = [each for each in ast.walk(node) if isinstance(each, ast.FunctionDef)]
                found[node.name] = [
                    ast.unparse(each.args.kwarg.annotation)
                    for each in taken
                    if each.name == "__init__" and each.args.kwarg and each.args.kwarg.annotation
                ]
    models = [name for name in fusioninfer_pulumi.api.model_names() if name.endswith("Args")]
    wrong = {model for model in models if found[model] != [f"Unpack[dicts.{model}Dict]"]}
    assert wrong == set(), "give these constructors their dictionary, as the others have"


def test_what_type_checkers_accept_is_accepted(output: Any) -> None:
    output("the fixture gives the program an event loop")
    held: dict[str, Any] = {"__name__": "accepted"}
    text = (ROOT / "tests" / "typed_programs" / "accepted.py").read_text(encoding="utf-8")
    exec(compile(text, "accepted.py", "exec"), held)
    (role,) = held["typed"].roles
    (container,) = role.template["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 8000, "name": "http"}]
    assert isinstance(container["image"], pulumi.Output)
    (role,) = held["mapped"].roles
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
