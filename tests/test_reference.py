"""The generated pages of the reference are current."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from samples import container, plan_manifest, role, service, template

from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.kube.labels import OWNED_LABELS

ROOT = Path(__file__).parent.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def pages() -> dict[str, str]:
    written: dict[str, str] = tool("reference").pages()
    return written


def test_rules_page_is_current() -> None:
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert written == tool("rule_page").page(), "make regenerate"


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse words its help in its own way in each version"
)
def test_command_line_page_is_current() -> None:
    path = ROOT / "docs" / "reference" / "command-line.md"
    assert path.read_text(encoding="utf-8") == pages()["command-line.md"], "make regenerate"


def test_command_examples_are_one_line_each() -> None:
    examples = re.findall(r"```text\n(.*?)```", pages()["command-line.md"], re.DOTALL)
    assert len(examples) > 8
    for line in (line for example in examples for line in example.splitlines()):
        assert "fusioninfer-pulumi" in line


def test_outputs_page_is_current() -> None:
    path = ROOT / "docs" / "reference" / "pulumi-outputs.md"
    assert path.read_text(encoding="utf-8") == pages()["pulumi-outputs.md"], "make regenerate"


def may_be_outputs(value: Any) -> dict[str, Any]:
    """Return a container whose fields that accept Outputs have this value."""
    key = {"name": value, "key": value}
    return {
        "image": {"image": value},
        "value": {"env": [{"name": "A", "value": value}]},
        "valueFrom": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": key}}]},
        "envFrom": {"envFrom": [{"secretRef": {"name": value}}]},
    }


def must_be_known(value: Any) -> dict[str, Any]:
    """Return a container whose other fields have this value."""
    return {
        "args": {"args": ["--model", value]},
        "name": {"env": [{"name": value, "value": "b"}]},
        "containerPort": {"ports": [{"containerPort": value}]},
        "resources": {"resources": {"limits": {"nvidia.com/gpu": value}}},
    }


@pytest.mark.parametrize("field", [*may_be_outputs(None), *must_be_known(None)])
def test_container_fields_accept_outputs_as_documented(
    field: str, output: Callable[[Any], Any]
) -> None:
    value = output("x")
    fields = {**may_be_outputs(value), **must_be_known(value)}[field]
    plan, _ = plan_manifest(service(role(template=template(container(**{"gpus": "1", **fields})))))
    assert (plan is not None and not filter_errors(plan.findings)) == (
        field in may_be_outputs(value)
    )
    rows = pages()["pulumi-outputs.md"].partition("Must be known")[2].splitlines()
    column = 1 if field in may_be_outputs(value) else 2
    assert any(f"`{field}`" in row.split("|")[column] for row in rows if row.count("|") == 3)


def test_fields_page_is_current() -> None:
    path = ROOT / "docs" / "reference" / "fields.md"
    assert path.read_text(encoding="utf-8") == pages()["fields.md"], "make regenerate"


def test_objects_page_lists_every_label() -> None:
    page = (ROOT / "docs" / "reference" / "objects.md").read_text(encoding="utf-8")
    section = page.partition("## Labels\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(.+?)`", section, re.MULTILINE)) == OWNED_LABELS
