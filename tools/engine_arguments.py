"""Writes the tables of vLLM's and SGLang's server arguments, release by release.

`python tools/engine_arguments.py vllm 0.34.0` reads a release and adds it to
`fusioninfer_pulumi/generated/vllm_arguments.jsonl`; without releases all those in the file are read
again. It needs the downloader `unearth` (`pip install unearth`), which takes the source
distribution from the package index, or a wheel where a release has none. Sources are read by their
syntax alone, never imported or run.

Each line of a file is one release: the arguments that differ from the release before it (`set`) and
those that are gone (`removed`), with the file that was read and its SHA-256. An argument has:

- `names`: further spellings
- `type`: `switch`, `str`, `int`, `float`, `size` (`8k`), `json`, or `any` for a function of its own
- `nargs`: as argparse has it, where it takes other than one value
- `negated`: it has a `--no-` form (`BooleanOptionalAction`)
- `choices`, `default`, `limits` (pydantic's `gt`, `ge`, `lt`, `le`): where they are known
- `deprecated`: what its help says to use instead, empty where it says nothing
- `serve`: `vllm serve` alone has it
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _static_python import (
    UNKNOWN,
    Class,
    External,
    Field,
    Function,
    Hint,
    Member,
    Module,
    Names,
    Sources,
    bind,
    default_of,
    hints_of,
    iterate,
)

TABLES = Path(__file__).resolve().parent.parent / "fusioninfer_pulumi" / "generated"
Specs = dict[str, dict[str, Any]]


class Parser:
    """Stands for an argparse parser or one of its groups, and keeps what is added."""

    def __init__(self) -> None:
        self.added: dict[str, tuple[list[str], dict[str, Any]]] = {}

    def add(self, names: list[str], options: dict[str, Any]) -> None:
        """Keeps an argument, unless it is positional."""
        if not all(isinstance(name, str) for name in names):
            raise SystemExit(f"the name of an argument cannot be read: {names}")
        if names[0].startswith("-"):
            names = sorted((name.replace("_", "-") for name in names), key=_length_of_dashes)
            self.added[names[0]] = (list(dict.fromkeys(names)), options)


def _length_of_dashes(name: str) -> bool:
    return not name.startswith("--")


class _Return(Exception):  # noqa: N818  # it is no error, but how a body ends
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Interpreter:
    """Follows the functions that add arguments to a parser."""

    def __init__(self, root: Path) -> None:
        self.sources = Sources(root, self._call)
        self._depth = 0

    def added(self, module: str, function: str) -> dict[str, tuple[list[str], dict[str, Any]]]:
        """What a function or a method `Class.name` adds to a parser that it is given."""
        source_module = self.sources.module(module)
        if source_module is None:
            raise SystemExit(f"there is no {module}")
        owner, _, name = function.rpartition(".")
        target = source_module.lookup(owner).method(name) if owner else source_module.lookup(name)
        parser = Parser()
        self.run(target, [parser], {})
        return parser.added

    def run(self, function: Function, values: list[Any], options: dict[str, Any]) -> Any:
        """What a function returns."""
        node = function.node
        parameters = [parameter.arg for parameter in node.args.args]
        if function.receiver is not None and parameters[:1] in (["cls"], ["self"]):
            values = [function.receiver, *values]
        names: Names = dict(zip(parameters, values, strict=False))
        defaults = node.args.defaults
        behind = parameters[len(parameters) - len(defaults) :]
        only = [parameter.arg for parameter in node.args.kwonlyargs]
        for name, default in zip(
            [*behind, *only], [*defaults, *node.args.kw_defaults], strict=True
        ):
            names.setdefault(name, function.module.evaluate(default))
        names |= {**options, "__owner__": function.owner}
        if isinstance(node, ast.Lambda):
            return function.module.evaluate(node.body, names)
        self._depth += 1
        try:
            if self._depth < 20:
                self._body(node.body, function.module, names)
        except _Return as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _body(self, statements: list[ast.stmt], module: Module, names: Names) -> None:
        for statement in statements:
            handler = _STATEMENTS.get(type(statement))
            if handler is not None:
                getattr(self, handler)(statement, module, names)

    def _expression(self, node: ast.Expr, module: Module, names: Names) -> None:
        module.evaluate(node.value, names)

    def _assignment(self, node: Any, module: Module, names: Names) -> None:
        value = module.evaluate(node.value, names)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._assign(target, value, module, names)

    def _addition(self, node: ast.AugAssign, module: Module, names: Names) -> None:
        loaded = ast.parse(ast.unparse(node.target), mode="eval").body
        old, extra = module.evaluate(loaded, names), module.evaluate(node.value, names)
        if isinstance(old, (str, list)) and type(old) is type(extra):
            self._assign(node.target, old + extra, module, names)

    def _assign(self, target: ast.expr, value: Any, module: Module, names: Names) -> None:
        if isinstance(target, ast.Subscript):
            mapping = module.evaluate(target.value, names)
            if isinstance(mapping, dict):
                mapping[module.evaluate(target.slice, names)] = value
        else:
            bind(target, value, names)

    def _loop(self, node: ast.For, module: Module, names: Names) -> None:
        try:
            items = iterate(module.evaluate(node.iter, names))
        except TypeError:
            return
        for item in items:
            bind(node.target, item, names)
            self._body(node.body, module, names)

    def _branch(self, node: ast.If, module: Module, names: Names) -> None:
        test = module.evaluate(node.test, names)
        if test is UNKNOWN or isinstance(test, (External, Function)):
            # The condition is not known: both branches are read.
            self._body([*node.body, *node.orelse], module, names)
        else:
            self._body(node.body if test else node.orelse, module, names)

    def _block(self, node: Any, module: Module, names: Names) -> None:
        self._body(node.body, module, names)

    def _function(self, node: ast.FunctionDef, module: Module, names: Names) -> None:
        names[node.name] = Function(module, node)

    def _import(self, node: Any, module: Module, names: Names) -> None:
        names |= {
            name: module.imported(*imported) for name, imported in module.imports(node).items()
        }

    def _deletion(self, node: ast.Delete, module: Module, names: Names) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                mapping = module.evaluate(target.value, names)
                if isinstance(mapping, dict):
                    mapping.pop(module.evaluate(target.slice, names), None)

    def _return(self, node: ast.Return, module: Module, names: Names) -> None:
        raise _Return(module.evaluate(node.value, names))

    def _call(self, function: Any, node: ast.Call, module: Module, names: Names) -> Any:
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name == "sys.modules.get":
            return None  # nothing is imported yet
        if last == "get_args":
            return _literals_of(hints_of(node.args[0], module))
        if isinstance(node.func, ast.Attribute):
            parser = module.evaluate(node.func.value, names)
            if isinstance(parser, Parser):
                return self._parser_call(parser, last, node, module, names)
            if ast.unparse(node.func.value) == "super()":
                bases = list(names["__owner__"].lineage())[1:]
                method = next(filter(None, (base.method(last) for base in bases)))
                receiver = names.get("cls") or names.get("self")
                function = Function(method.module, method.node, receiver, method.owner)
        values, options = self._given(node, module, names)
        if last == "get_kwargs":
            return vllm_options(values[0])
        if last == "get_field":
            return values[0].attribute(values[1])
        if last in ("optional_type", "parse_type"):
            return values[0]
        if last == "add_cli_args_from_dataclass":
            for spellings, field_options in sglang_options(values[1], options.get("fields")):
                values[0].add(spellings, field_options)
            return None
        if last == "_declared_default":
            return _sglang_default(module.lookup("ServerArgs"), values[0])
        return self.run(function, values, options) if isinstance(function, Function) else UNKNOWN

    def _parser_call(
        self, parser: Parser, method: str, node: ast.Call, module: Module, names: Names
    ) -> Any:
        if method == "add_argument":
            parser.add(*self._given(node, module, names))
        made = ("add_argument_group", "add_mutually_exclusive_group", "add_parser")
        return parser if method in made else None

    def _given(
        self, node: ast.Call, module: Module, names: Names
    ) -> tuple[list[Any], dict[str, Any]]:
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            value = module.evaluate(keyword.value, names)
            if keyword.arg is not None:
                options[keyword.arg] = value
            elif isinstance(value, dict):
                options |= value
            else:
                raise SystemExit(f"options that cannot be read: {ast.unparse(node)}")
        return module.items(node.args, names), options


_STATEMENTS: dict[type[ast.stmt], str] = {
    ast.Expr: "_expression",
    ast.Assign: "_assignment",
    ast.AnnAssign: "_assignment",
    ast.AugAssign: "_addition",
    ast.For: "_loop",
    ast.If: "_branch",
    ast.With: "_block",
    ast.Try: "_block",
    ast.FunctionDef: "_function",
    ast.Import: "_import",
    ast.ImportFrom: "_import",
    ast.Delete: "_deletion",
    ast.Return: "_return",
}


def _literals_of(hints: list[Hint]) -> Any:
    return next((list(values) for kind, values in hints if kind == "literal"), UNKNOWN)


def vllm_options(cls: Class) -> dict[str, dict[str, Any]]:
    """What `get_kwargs` of vLLM's `engine/arg_utils.py` makes of a configuration class."""
    utils = cls.module.sources.module("vllm.engine.arg_utils")
    assert utils is not None
    options_of = {}
    for name, (module, statement) in cls.fields().items():
        hints = hints_of(statement.annotation, module)
        options = {"default": cls.attribute(name), "limits": _limits(module, statement)}
        if utils.has("get_kwargs"):
            options |= _vllm_type(name, _by_kind(hints), utils.text)
        elif "bool" not in dict(hints):  # 0.8.4, where it is inside of `add_cli_args`
            optional = len(hints) > 1
            options["type"] = External("str" if optional else hints[0][0])
        options_of[name] = options
    return options_of


def _by_kind(hints: list[Hint]) -> dict[str, tuple[Any, ...]]:
    """Hints by their kinds; several literals are one of all their values."""
    by_kind: dict[str, tuple[Any, ...]] = {}
    for kind, values in hints:
        known = by_kind.get(kind, ()) if kind == "literal" else ()
        by_kind[kind] = (*known, *(value for value in values if value not in known))
    return by_kind


def _vllm_type(name: str, hints: dict[str, tuple[Any, ...]], text: str) -> dict[str, Any]:
    if "class" in hints and (hints["class"][0].is_dataclass):
        return {"type": External("json.loads")}
    if set(hints) == {"bool", "str", "None"} and "{bool, str, type(None)}" in text:
        return {"type": External("str"), "nargs": "?"}
    if "bool" in hints:
        return {"action": External("argparse.BooleanOptionalAction")}
    if "literal" in hints:
        values = list(hints["literal"])
        # If any text is allowed too, the choices are only shown in the help.
        enforced = "str" not in hints or '"metavar" if contains_type' not in text
        return {"type": _type_of(values[0]), **({"choices": values} if enforced else {})}
    for kind in ("tuple", "list", "set"):
        if kind in hints:
            return _vllm_list(kind, hints[kind])
    if "int" in hints:
        human = re.search(rf'(?:in|=) *[({{][^(){{}}]*"{name}"|name == "{name}"', text)
        known = human is not None and "human_readable_int" in text
        return {"type": External("human_readable_int" if known else "int")}
    if "float" in hints:
        return {"type": External("float")}
    if "dict" in hints:
        return {"type": External("json.loads" if set(hints) <= {"dict", "None"} else "str")}
    return {"type": External("str")}


def _vllm_list(kind: str, inner: tuple[Any, ...]) -> dict[str, Any]:
    element = dict(inner[0]) if inner else {"str": ()}
    open_ended = kind != "tuple" or inner[-1] == (("other", (...,)),)
    options: dict[str, Any] = {"nargs": "+" if open_ended else len(inner)}
    if "literal" in element:
        values = list(element["literal"])
        return {**options, "type": _type_of(values[0]), "choices": values}
    return {**options, "type": External("str" if len(element) > 1 else next(iter(element)))}


def _type_of(value: Any) -> External:
    return External(type(value).__name__)


def _limits(module: Module, statement: ast.AnnAssign) -> dict[str, Any]:
    """Limits that pydantic holds a field to, from its default or its `Annotated` type."""
    nodes: list[ast.expr] = [] if statement.value is None else [statement.value]
    annotation = statement.annotation
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        nodes += annotation.slice.elts
    fields = [module.evaluate(node) for node in nodes if isinstance(node, ast.Call)]
    return dict(limit for field in fields if isinstance(field, Field) for limit in field.limits)


def _sglang_fields(cls: Class) -> Iterator[tuple[str, Module, ast.AnnAssign]]:
    """The fields of `ServerArgs`, which later releases gather from the classes of one folder."""
    classes = [cls] if cls.fields() else []
    if not classes:
        base = "sglang.srt.arg_groups.fields"
        for path in sorted((cls.module.path.parent / "arg_groups" / "fields").glob("[a-z]*.py")):
            module = cls.module.sources.module(f"{base}.{path.stem}")
            assert module is not None
            class_nodes = [
                class_statement
                for class_statement in module.tree.body
                if isinstance(class_statement, ast.ClassDef)
            ]
            classes += [Class(module, class_node) for class_node in class_nodes]
    for class_ in classes:
        for name, (module, statement) in class_.fields().items():
            yield name, module, statement


def _sglang_default(cls: Class, name: str) -> Any:
    for field, module, statement in _sglang_fields(cls):
        if field == name and statement.value is not None:
            return default_of(module.evaluate(statement.value))
    return UNKNOWN


def sglang_options(
    cls: Class, only: list[str] | None
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """What SGLang's `add_cli_args_from_dataclass` makes of fields `A[type, Arg(...)]`."""
    for name, module, statement in _sglang_fields(cls):
        node = statement.annotation
        if isinstance(node, ast.Constant):
            node = ast.parse(node.value, mode="eval").body
        head = ast.unparse(node.value) if isinstance(node, ast.Subscript) else ""
        if head not in ("A", "Annotated") or not isinstance(node.slice, ast.Tuple):
            continue
        inner, *extras = node.slice.elts
        said = next(filter(None, (_sglang_metadata(extra, module) for extra in extras)), None)
        if said is None or said.get("no_cli") or (only is not None and name not in only):
            continue
        spelling = said.get("cli_name") or "--" + name.replace("_", "-")
        hints = [hint for hint in hints_of(inner, module) if hint[0] != "None"]
        options = _sglang_type(said, hints)
        if statement.value is not None:
            options["default"] = default_of(module.evaluate(statement.value))
        yield [spelling, *(said.get("aliases") or [])], options


def _sglang_metadata(node: ast.expr, module: Module) -> dict[str, Any] | None:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Arg":
        first = {"help": module.evaluate(node.args[0])} if node.args else {}
        return {**first, **{str(e.arg): module.evaluate(e.value) for e in node.keywords}}
    text = module.evaluate(node)
    return {"help": text} if isinstance(text, str) else None


def _sglang_type(said: dict[str, Any], hints: list[Hint]) -> dict[str, Any]:
    options = {key: said[key] for key in ("help", "choices", "nargs") if said.get(key) is not None}
    kind, inner = hints[0] if len(hints) == 1 else ("str", ())
    parser = said.get("type_parser")
    if said.get("action") is not None:
        return {**options, "action": said["action"], **(said.get("action_kwargs") or {})}
    if kind == "literal":
        return {"choices": list(inner), **options, "type": parser or _type_of(inner[0])}
    if kind == "list" and parser is None:
        element = inner[0][0][0] if inner else "str"
        return {"nargs": "+", **options, "type": External(_plain_type(element))}
    if kind == "bool":
        return {**options, "action": "store_true"}
    return {**options, "type": parser or External(_plain_type(kind))}


def _plain_type(name: str) -> str:
    return name if name in ("int", "float") else "str"


_SWITCHES = ("store_true", "store_false", "store_const", "count", "help", "version")
_TYPES = {
    "int": "int",
    "check_port": "int",
    "float": "float",
    "str": "str",
    "nullable_str": "str",
    "bool": "str",
    "loads": "json",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size",
}


def spec_of(names: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """An argument as the tables have it."""
    spec: dict[str, Any] = {"names": names[1:]} if names[1:] else {}
    action, nargs = options.get("action", "store"), options.get("nargs")
    if isinstance(action, Class) and nargs is None:
        nargs = _nargs_of(action)
    negated = isinstance(action, External) and action.name.endswith("BooleanOptionalAction")
    if negated or action in _SWITCHES or nargs == 0:
        spec["type"] = "switch"
    else:
        kind = options.get("type", External("str"))
        name = kind.name.rpartition(".")[2] if isinstance(kind, (External, Function)) else ""
        spec["type"] = _TYPES.get(name, "any")
        if nargs is not None and nargs is not UNKNOWN:
            spec["nargs"] = nargs
    if negated:
        spec["negated"] = True
    choices = _plain(options.get("choices"))
    if isinstance(choices, list) and choices:
        spec["choices"] = sorted({choice for choice in choices if choice is not None})
    default = _plain(options.get("default", UNKNOWN))
    if action == "store_true" and default is UNKNOWN:
        default = False
    if default is not UNKNOWN:
        spec["default"] = default
    limits = {
        key: limit for key, limit in (options.get("limits") or {}).items() if _is_number(limit)
    }
    if limits:
        spec["limits"] = limits
    deprecated = _deprecated(action, options)
    return spec if deprecated is None else {**spec, "deprecated": deprecated}


def _nargs_of(action: Class) -> Any:
    """The `nargs` that a class of actions chooses."""
    init = action.method("__init__")
    if init is None:
        return None
    if re.search(r"super\(.*nargs=0", ast.unparse(init.node)):
        return 0
    names, defaults = [parameter.arg for parameter in init.node.args.args], init.node.args.defaults
    defaults_of = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return init.module.evaluate(defaults_of["nargs"]) if "nargs" in defaults_of else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _plain(value: Any) -> Any:
    """A value as JSON; UNKNOWN where it is none."""
    if isinstance(value, Member):
        return value.value if isinstance(value.value, (str, int)) else value.name
    if isinstance(value, (list, tuple, set, Class)):
        items = [_plain(item) for item in iterate(value)]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    known = value is None or isinstance(value, (str, int, float, bool))
    return value if known else UNKNOWN


def _deprecated(action: Any, options: dict[str, Any]) -> str | None:
    """What to use instead of a deprecated argument; None for all others."""
    text = options.get("help")
    text = text if isinstance(text, str) else ""
    said = re.match(r"(?i)\W*(note: )?(--[\w-]+ is )?deprecated", text)
    marked = options.get("deprecated") is True
    named = isinstance(action, Class) and "Deprecated" in action.name
    if not (said or marked or named):
        return None
    if isinstance(options.get("new_flag"), str):
        return str(options["new_flag"])
    new = re.search(r"(?i)\b(?:use|set)[:\s]+[`'\"]*(--[\w.-]+(?:[ =][\w.]+)?)?[`'\"]*", text)
    flag = re.search(r"--[\w.-]+(?:=[\w.]+)?", text[new.start() :]) if new else None
    return flag[0].rstrip(".") if flag else ""


def read_arguments(engine: str, root: Path) -> Specs:
    """The arguments of a release, by the first spelling of each."""
    interpreter = Interpreter(root)
    if engine == "sglang":
        arguments = interpreter.added("sglang.srt.server_args", "ServerArgs.add_cli_args")
        common = arguments
    else:
        module = "vllm.entrypoints.cli.serve"
        arguments = interpreter.added(module, "ServeSubcommand.subparser_init")
        common = interpreter.added(module, "make_arg_parser")
    _check_complete(interpreter, {name for names, _ in arguments.values() for name in names})
    specs = {name: spec_of(*argument) for name, argument in arguments.items()}
    for name in arguments.keys() - common.keys():
        specs[name]["serve"] = True
    if engine == "vllm":
        _add_checks(interpreter, specs)
    return dict(sorted(specs.items()))


def _add_checks(interpreter: Interpreter, specs: Specs) -> None:
    """Adds what older releases check in their configuration classes, as later ones in types."""
    for name in ("vllm.config", "vllm.config.lora", "vllm.config.cache"):
        module = interpreter.sources.module(name)
        text = module.text if module is not None else ""
        ranks = re.search(r"possible_max_ranks = (\([0-9, ]+\))", text)
        if ranks is not None:
            specs["--max-lora-rank"]["choices"] = sorted(ast.literal_eval(ranks[1]))
        if "self.gpu_memory_utilization > 1.0" in text:
            specs["--gpu-memory-utilization"].setdefault("limits", {"le": 1})


def _check_complete(interpreter: Interpreter, names: set[str]) -> None:
    """Holds what was found against every name that is written out in the same functions."""
    for module in interpreter.sources.loaded():
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            if function.name not in ("add_cli_args", "make_arg_parser", "subparser_init"):
                continue
            if module.name.endswith("run_batch"):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("add_argument"):
                    for argument in node.args:
                        written = module.evaluate(argument)
                        literal = isinstance(written, str) and "…" not in written
                        if literal and written.startswith("-"):
                            assert written.replace("_", "-") in names, (module.name, written)


def fetch(engine: str, release: str, folder: Path) -> tuple[Path, Path]:
    """Downloads a release; returns its file, and the folder that holds the unpacked package."""
    wheel = ["--only-binary", "--py", "3.11", "--impl", "cp", "--abis", "cp311,abi3,none"]
    wheel += ["--platforms", "manylinux_2_34_x86_64,manylinux_2_31_x86_64,any"]
    program = shutil.which("unearth", path=str(Path(sys.executable).parent)) or "unearth"
    for options in (["--no-binary"], wheel):
        command = [program, *options, "--download", str(folder), "--", f"{engine}=={release}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
    else:
        raise SystemExit(f"cannot download {engine} {release}: {done.stderr}")
    (archive,) = (file for file in folder.iterdir() if file.is_file())
    unpacked = folder / "unpacked"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.endswith(".py"):
                    opened.extract(name, unpacked)
    else:
        with tarfile.open(archive) as opened_tar:
            wanted = [
                member for member in opened_tar if member.isfile() and member.name.endswith(".py")
            ]
            # The filter keeps files inside of the folder.
            opened_tar.extractall(unpacked, wanted, filter="data")
    roots = [
        folder_.parent for folder_ in unpacked.rglob(engine) if (folder_ / "__init__.py").is_file()
    ]
    return archive, min(roots, key=lambda root: len(root.parts))


def version_key(release: str) -> tuple[int, ...]:
    """Sorts releases: `0.8.5` before `0.8.5.post1`."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", release))


def read_table(path: Path) -> dict[str, tuple[dict[str, str], Specs]]:
    """The releases of a table: where each comes from, and all of its arguments."""
    releases: dict[str, tuple[dict[str, str], Specs]] = {}
    specs: Specs = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        change = json.loads(line)
        specs = {name: spec for name, spec in specs.items() if name not in change["removed"]}
        specs = {**specs, **change["set"]}
        source = {key: change[key] for key in ("file", "sha256")}
        releases[change["release"]] = (source, specs)
    return releases


def write_table(path: Path, releases: dict[str, tuple[dict[str, str], Specs]]) -> None:
    """Writes a table, each release as what differs from the one before it."""
    lines, before = [], Specs()
    for release in sorted(releases, key=version_key):
        source, specs = releases[release]
        changed = {name: spec for name, spec in specs.items() if before.get(name) != spec}
        change = {
            "release": release,
            **source,
            "set": dict(sorted(changed.items())),
            "removed": sorted(before.keys() - specs.keys()),
        }
        lines.append(json.dumps(change, separators=(",", ":"), ensure_ascii=False) + "\n")
        before = specs
    path.write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Reads releases into a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", choices=["vllm", "sglang"])
    parser.add_argument("release", nargs="*", help="by default all those in the table")
    options = parser.parse_args()
    path = TABLES / f"{options.engine}_arguments.jsonl"
    releases = read_table(path)
    for release in options.release or list(releases):
        with tempfile.TemporaryDirectory() as folder:
            archive, root = fetch(options.engine, release, Path(folder))
            specs = read_arguments(options.engine, root)
            digest = hashlib.sha256(archive.read_bytes()).hexdigest()
            releases[release] = ({"file": archive.name, "sha256": digest}, specs)
        print(f"{options.engine} {release}: {len(specs)} arguments")
        write_table(path, releases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
