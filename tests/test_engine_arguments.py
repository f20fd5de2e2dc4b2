"""The tool that reads engine arguments out of sources, on small sources of each form."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.engines.arguments import argument_table

TOOLS = Path(__file__).parents[1] / "tools"
TABLES = TOOLS.parent / "fusioninfer_pulumi" / "generated"

VLLM = {
    "vllm/config/__init__.py": """
from typing import Annotated, Literal, Optional, TYPE_CHECKING, Union
from pydantic import Field
from .kinds import DType
from .lora import LoRAConfig
if TYPE_CHECKING:
    from elsewhere import Method
else:
    Method = str
Ranks = Literal[8, 16]
@config
class ModelConfig:
    model: str = "m"
    dtype: DType | None = "auto"
    max_len: int = Field(default=8, ge=1)
    share: Annotated[float, Field(gt=0, le=1)] = 0.9
    ranks: list[Ranks] = [8]
    eager: bool = False
    method: Method | None = None
    formats: Literal["a", "b"] | str = "a"
    extra: LoRAConfig = Field(default_factory=LoRAConfig)
    names: Optional[list[str]] = None
    either: Union[Literal["a", "b"], Literal["b", "c"]] = "a"
    traces: Optional[list[Literal["x", "y"]]] = None
""",
    "vllm/config/kinds.py": 'DType = __import__("typing").Any\nfrom typing import Literal\n'
    'Float = Literal["half"]\nDType = Literal["auto", Float]\n',
    "vllm/config/lora.py": "@config\nclass LoRAConfig:\n    max_loras: int = 1\n",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
import argparse
from itertools import permutations
from vllm.config import ModelConfig
def get_kwargs(cls):
    kwarg = "metavar" if contains_type(type_hints, str) else "choices"
    return {}
class EngineArgs:
    model: str = ModelConfig.model
    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        for name in ("model", "dtype", "share", "ranks", "eager", "method", "formats"):
            group.add_argument(f"--{name}", **kwargs[name])
        group.add_argument("--max-len", "-ml", **{**kwargs["max_len"], "default": None})
        kwargs["extra"]["help"] += "more"
        kwargs["traces"]["choices"] += [",".join(p) for p in permutations(("x", "y"), r=2)]
        group.add_argument("--traces", **kwargs["traces"])
        group.add_argument("--either", **kwargs["either"])
        group.add_argument("--extra_config", **kwargs["extra"])
        if somebody_knows():
            group.add_argument("--names", **kwargs["names"])
        group.add_argument("--old", action="store_true", help="[DEPRECATED] Use `--eager`.")
        return parser
""",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/cli_args.py": """
from vllm.engine.arg_utils import EngineArgs
def make_arg_parser(parser):
    parser.add_argument("--port", type=int, default=8000)
    return EngineArgs.add_cli_args(parser)
""",
    "vllm/entrypoints/cli/__init__.py": "",
    "vllm/entrypoints/cli/serve.py": """
from vllm.entrypoints.openai.cli_args import make_arg_parser
class ServeSubcommand:
    def subparser_init(self, subparsers):
        serve = subparsers.add_parser("serve")
        serve.add_argument("model_tag", type=str, nargs="?")
        serve.add_argument("--headless", action="store_true", default=False)
        return make_arg_parser(serve)
""",
}
SGLANG = {
    "sglang/srt/server_args.py": """
import argparse
from typing import List, Literal, Optional
KINDS = ["a", "b"]
class DeprecatedAction(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, new_flag=None, **kwargs): ...
class ServerArgs:
    path: A[str, Arg(help="The path.", aliases=["--model"])]
    sizes: A[Optional[List[int]], "Sizes."] = None
    fast: A[bool, "Fast."] = False
    kind: A[Optional[str], Arg(help="Kind.", choices=KINDS)] = None
    hidden: A[int, Arg(help="No.", no_cli=True)] = 1
    plain: int = 2
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--mode", choices=[each for each in KINDS], default=KINDS[0])
        parser.add_argument("--old", action=DeprecatedAction, new_flag="--fast")
""",
}


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(
            "engine_arguments", TOOLS / "engine_arguments.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(TOOLS))


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_classes_become_arguments_as_vllm_makes_them(tool: Any, tmp_path: Path) -> None:
    assert tool.read_arguments("vllm", written(tmp_path, VLLM)) == {
        "--dtype": {"type": "str", "choices": ["auto", "half"], "default": "auto"},
        "--eager": {"type": "switch", "negated": True, "default": False},
        "--either": {"type": "str", "choices": ["a", "b", "c"], "default": "a"},
        "--extra-config": {"type": "json"},
        "--formats": {"type": "str", "default": "a"},
        "--headless": {"type": "switch", "default": False, "serve": True},
        "--max-len": {"names": ["-ml"], "type": "int", "default": None, "limits": {"ge": 1}},
        "--method": {"type": "str", "default": None},
        "--model": {"type": "str", "default": "m"},
        "--names": {"type": "str", "nargs": "+", "default": None},
        "--old": {"type": "switch", "default": False, "deprecated": "--eager"},
        "--port": {"type": "int", "default": 8000},
        "--ranks": {"type": "int", "nargs": "+", "choices": [8, 16], "default": [8]},
        "--traces": {
            "type": "str",
            "nargs": "+",
            "choices": ["x", "x,y", "y", "y,x"],
            "default": None,
        },
        "--share": {"type": "float", "default": 0.9, "limits": {"gt": 0, "le": 1}},
    }


def test_annotations_become_arguments_as_sglang_makes_them(tool: Any, tmp_path: Path) -> None:
    assert tool.read_arguments("sglang", written(tmp_path, SGLANG)) == {
        "--fast": {"type": "switch", "default": False},
        "--kind": {"type": "str", "choices": ["a", "b"], "default": None},
        "--mode": {"type": "str", "choices": ["a", "b"], "default": "a"},
        "--old": {"type": "switch", "deprecated": "--fast"},
        "--path": {"names": ["--model"], "type": "str"},
        "--sizes": {"type": "int", "nargs": "+", "default": None},
    }


def test_a_name_that_is_not_found_stops_the_tool(tool: Any, tmp_path: Path) -> None:
    path = "vllm/engine/arg_utils.py"
    hidden = VLLM[path].replace("if somebody_knows():", "if False:")
    with pytest.raises(AssertionError, match="--names"):
        tool.read_arguments("vllm", written(tmp_path, {**VLLM, path: hidden}))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_table_is_read_and_written_alike(tool: Any, tmp_path: Path, engine: str) -> None:
    committed = TABLES / f"{engine}_arguments.jsonl"
    releases = tool.read_table(committed)
    tool.write_table(tmp_path / "again.jsonl", releases)
    assert (tmp_path / "again.jsonl").read_text() == committed.read_text()
    # Both readers of a table see the same.
    table = argument_table(engine)
    assert list(releases) == list(table.releases)
    for release, (_, specs) in releases.items():
        options = table.options(release)
        assert {options.name(word) for word in options} == set(specs)


def test_releases_sort_by_their_numbers(tool: Any) -> None:
    given = ["0.10.0", "0.8.5.post1", "0.8.5", "0.9.2"]
    assert sorted(given, key=tool.version_key) == ["0.8.5", "0.8.5.post1", "0.9.2", "0.10.0"]
