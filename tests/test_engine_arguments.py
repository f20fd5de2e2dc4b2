"""The tool that writes the tables of engine arguments."""

from __future__ import annotations

import argparse
import enum
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.engines.argument_tables import load_argument_table
from fusioninfer_pulumi.generated import DIRECTORY

TOOL = Path(__file__).parents[1] / "tools" / "engine_arguments.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("engine_arguments", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Kind(enum.Enum):
    FAST = "fast"


class DeprecatedAction(argparse.Action):
    def __init__(self, *names: Any, new_flag: str, **options: Any) -> None:
        super().__init__(*names, nargs=0, **options)
        self.new_flag = new_flag


def size(text: str) -> int:
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)


def lower(text: str) -> str:
    return text.lower()


@each_row(
    ("names", "options", "expected"),
    [
        (["--a"], {}, {"type": "str"}),
        (["-a", "--b_c"], {"type": int}, {"names": ["-a"], "type": "int"}),
        (["--a"], {"type": size, "default": 1}, {"type": "size", "default": 1}),
        (["--a"], {"type": float, "nargs": "+"}, {"type": "float", "nargs": "+"}),
        (["--a"], {"type": json.loads}, {"type": "json"}),
        (["--a"], {"type": lower}, {"type": "any"}),
        (["--a"], {"choices": ["b", "a", None]}, {"type": "str", "choices": ["a", "b"]}),
        (["--a"], {"default": Kind.FAST}, {"type": "str", "default": "fast"}),
        (["--a"], {"default": object()}, {"type": "str"}),
        (["--a"], {"action": "store_true"}, {"type": "switch", "default": False}),
        (
            ["--a", "-a"],
            {"action": argparse.BooleanOptionalAction, "default": None},
            {"names": ["-a"], "type": "switch", "negated": True, "default": None},
        ),
        (
            ["--a"],
            {"action": "store_true", "help": "[DEPRECATED] Use `--eager`."},
            {"type": "switch", "default": False, "deprecated": "--eager"},
        ),
        (
            ["--a"],
            {"action": DeprecatedAction, "new_flag": "--fast"},
            {"type": "switch", "deprecated": "--fast"},
        ),
    ],
)  # fmt: skip
def test_argument_of_parser_becomes_row(
    tool: Any, names: list[str], options: dict[str, Any], expected: dict[str, Any]
) -> None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument(*names, **options)
    (specs,) = tool.read_specs(parser).values()
    assert specs == expected


def test_limits_are_read_from_longer_help(tool: Any) -> None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    text = tool.add_limits("Share.", {"gt": 0, "le": 1})
    parser.add_argument("--share", type=float, help=text + " More.")
    assert tool.read_specs(parser) == {"--share": {"type": "float", "limits": {"gt": 0, "le": 1}}}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_table_is_read_and_written_alike(tool: Any, tmp_path: Path, engine: str) -> None:
    committed = DIRECTORY / f"{engine}_arguments.jsonl"
    releases = tool.read_table(committed)
    tool.write_table(tmp_path / "again.jsonl", releases)
    assert (tmp_path / "again.jsonl").read_text() == committed.read_text()
    # Both readers of a table see the same.
    table = load_argument_table(engine)
    assert list(releases) == list(table.releases)
    for release, line in releases.items():
        options = table.get_definitions(release)
        assert {options[word].name for word in options} == set(line["set"])
