"""Evaluates Python sources without running them: constants, classes, and types of annotations.

It knows as much of Python as the command lines of vLLM and SGLang need. What it does not know is
`UNKNOWN`, never a guess, and of packages outside of the sources it knows only names.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("nobody knows whether something unknown is true")


UNKNOWN: Any = _Unknown()
Names = dict[str, Any]
#: A type: its name and, of a literal, its values, of a class, the class, of a container, the types
#: inside of it.
Hint = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class External:
    """A name from outside of the sources, such as `json.loads` or `int`."""

    name: str


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True)
class Field:
    """What `field(...)` or `Field(...)` says: a default, and the limits of numbers."""

    default: Any = UNKNOWN
    limits: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Function:
    """A function; of a method the class that it is called on, and the one that defines it."""

    module: Module
    node: ast.FunctionDef | ast.Lambda
    receiver: Class | None = None
    owner: Class | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "lambda"


@dataclass(frozen=True, eq=False)
class Class:
    """A class, and the module that it stands in."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    def lineage(self) -> Iterator[Class]:
        """The class and its bases, itself first."""
        yield self
        for node in self.node.bases:
            base = self.module.evaluate(node)
            if isinstance(base, Class):
                yield from base.lineage()

    @property
    def is_enum(self) -> bool:
        """Whether it is an enumeration."""
        names = [ast.unparse(base) for ancestor in self.lineage() for base in ancestor.node.bases]
        return any(name.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum") for name in names)

    @property
    def is_dataclass(self) -> bool:
        """Whether it is a dataclass, or one of vLLM's `@config` classes."""
        names = {ast.unparse(decorator).partition("(")[0] for decorator in self.node.decorator_list}
        return any(name.rpartition(".")[2] in ("config", "dataclass") for name in names)

    def members(self) -> list[Member]:
        """The members of an enumeration."""
        enum_members = []
        for statement in self.node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name, value = statement.targets[0].id, self.module.evaluate(statement.value)
                if not name.startswith("_"):
                    enum_members.append(
                        Member(name, value[0] if isinstance(value, tuple) else value)
                    )
        return enum_members

    def fields(self) -> dict[str, tuple[Module, ast.AnnAssign]]:
        """The annotated names of its body and of its bases, in the order of a dataclass."""
        annotated: dict[str, tuple[Module, ast.AnnAssign]] = {}
        for ancestor in reversed(list(self.lineage())):
            for statement in ancestor.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    annotated[statement.target.id] = (ancestor.module, statement)
        return annotated

    def method(self, name: str) -> Function | None:
        """A method by its name, looked up in the bases too."""
        for ancestor in self.lineage():
            for statement in ancestor.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == name:
                    return Function(ancestor.module, statement, self, ancestor)
        return None

    def assigned(self) -> dict[str, ast.expr]:
        """The expressions that its body gives to names."""
        values: dict[str, ast.expr] = {}
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets: list[ast.expr] = [statement.target]
            elif isinstance(statement, ast.Assign):
                targets = statement.targets
            else:
                continue
            assert statement.value is not None
            values |= {
                target.id: statement.value for target in targets if isinstance(target, ast.Name)
            }
        return values

    def attribute(self, name: str) -> Any:
        """The value of a class attribute, the default of a field, a member or a method."""
        if name == "__name__":
            return self.name
        if self.is_enum:
            return next((member for member in self.members() if member.name == name), UNKNOWN)
        for ancestor in self.lineage():
            if name in ancestor.assigned():
                return default_of(
                    ancestor.module.evaluate(ancestor.assigned()[name], _Body(ancestor))
                )
        return self.method(name) or UNKNOWN


class _Body(dict[str, Any]):
    """The names in the body of a class, which the defaults below them may use."""

    def __init__(self, owner: Class) -> None:
        super().__init__()
        self._owner = owner

    def __contains__(self, name: object) -> bool:
        return name in self._owner.assigned()

    def __getitem__(self, name: str) -> Any:
        return self._owner.attribute(name)


def default_of(value: Any) -> Any:
    """The default of a field, whichever way it is written."""
    return value.default if isinstance(value, Field) else value


#: Answers a call that the evaluator does not know; UNKNOWN where it does not know it either.
Caller = Callable[[Any, ast.Call, "Module", Names], Any]


@dataclass(eq=False)
class Sources:
    """A folder of Python sources.

    Attributes:
        root: The folder that holds the package.
        call: Is asked first what a call returns.
    """

    root: Path
    call: Caller
    _modules: dict[str, Module | None] = field(default_factory=dict)

    def module(self, name: str) -> Module | None:
        """A module of the sources; None where there is none."""
        if name not in self._modules:
            path = self.root.joinpath(*name.split("."))
            files = (path.with_suffix(".py"), path / "__init__.py")
            file = next((candidate for candidate in files if candidate.is_file()), None)
            self._modules[name] = Module(self, name, file) if file is not None else None
        return self._modules[name]

    def loaded(self) -> list[Module]:
        """The modules that were asked for."""
        return [module for module in self._modules.values() if module is not None]


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    builtin.__name__: builtin
    for builtin in (list, tuple, set, dict, sorted, str, int, float, bool, len, min, max)
} | {"itertools.permutations": itertools.permutations}
_PLAIN = (str, list, dict, set, tuple, int, float)
#: Methods of `Module` by what they evaluate.
_HANDLERS: dict[type[ast.AST], str] = {
    ast.List: "_sequence",
    ast.Tuple: "_sequence",
    ast.Set: "_sequence",
    ast.Dict: "_mapping",
    ast.Attribute: "_attribute",
    ast.Subscript: "_subscript",
    ast.JoinedStr: "_text",
    ast.FormattedValue: "_formatted",
    ast.UnaryOp: "_operation",
    ast.BinOp: "_operation",
    ast.Compare: "_operation",
    ast.BoolOp: "_either",
    ast.IfExp: "_choice",
    ast.ListComp: "_comprehension",
    ast.SetComp: "_comprehension",
    ast.GeneratorExp: "_comprehension",
    ast.Lambda: "_lambda",
    ast.Call: "_call",
}
# Evaluating may fail where Python itself would not run the code: the value is UNKNOWN then.
_FAILURES = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)


class Module:
    """A module whose names are evaluated when they are asked for."""

    def __init__(self, sources: Sources, name: str, path: Path) -> None:
        self.sources, self.name, self.path = sources, name, path
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self._defined: dict[str, ast.AST] = {}
        self._imported: dict[str, tuple[str, str | None]] = {}
        self._values: dict[str, Any] = {}
        self._collect(self.tree.body)

    def _collect(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
                self._defined[statement.name] = statement
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self._collect_assignment(statement)
            elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
                # What type checkers alone read is not there at run time; its imports still say
                # where a name comes from.
                self._collect(statement.orelse)
                for child in statement.body:
                    if isinstance(child, ast.ImportFrom):
                        known = {**self._imported}
                        self._imported |= {**self.imports(child), **known}
            elif isinstance(statement, ast.If):
                self._collect([*statement.body, *statement.orelse])
            elif isinstance(statement, ast.Try):
                self._collect(statement.body)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._imported |= self.imports(statement)

    def _collect_assignment(self, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name):
                definition = self._defined.get(target.id)
                # A class that a later assignment wraps stays the class as it is written.
                if not isinstance(definition, ast.ClassDef):
                    self._defined[target.id] = statement.value

    def imports(self, node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
        """The names that an import binds: by each the module, and the name in it."""
        if isinstance(node, ast.Import):
            whole = [(alias.asname or alias.name.partition(".")[0], alias) for alias in node.names]
            return {name: (alias.name if alias.asname else name, None) for name, alias in whole}
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        return {alias.asname or alias.name: (base, alias.name) for alias in node.names}

    def lookup(self, name: str) -> Any:
        """The value of a global name."""
        if name not in self._values:
            self._values[name] = UNKNOWN  # in circles nothing is known
            self._values[name] = self._find(name)
        return self._values[name]

    def _find(self, name: str) -> Any:
        node = self._defined.get(name)
        if isinstance(node, ast.ClassDef):
            return Class(self, node)
        if isinstance(node, ast.FunctionDef):
            return Function(self, node)
        if node is not None:
            return self.evaluate(node)
        if name in self._imported:
            return self.imported(*self._imported[name])
        return External(name)

    def has(self, name: str) -> bool:
        """Whether the module defines or imports a name."""
        return name in self._defined or name in self._imported

    def imported(self, base: str, name: str | None) -> Any:
        """The value of a name of another module, or that module."""
        module = self.sources.module(base)
        if name is None:
            return module or External(base)
        if module is not None and module.has(name):
            return module.lookup(name)
        inner = self.sources.module(f"{base}.{name}")
        return inner or (UNKNOWN if module is not None else External(f"{base}.{name}"))

    def alias(self, name: str) -> tuple[Module, ast.AST] | None:
        """The expression that a name stands for, where it is no class or function."""
        node = self._defined.get(name)
        if node is not None:
            wrong = isinstance(node, (ast.ClassDef, ast.FunctionDef))
            return None if wrong else (self, node)
        base, inner = self._imported.get(name, ("", None))
        other = self.sources.module(base) if inner else None
        return other.alias(inner) if other is not None and inner else None

    def evaluate(self, node: ast.AST | None, names: Names | None = None) -> Any:
        """The value of an expression."""
        try:
            return self._evaluate(node, {} if names is None else names)
        except _FAILURES:
            return UNKNOWN

    def _evaluate(self, node: ast.AST | None, names: Names) -> Any:
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else self.lookup(node.id)
        handler = _HANDLERS.get(type(node))
        return getattr(self, handler)(node, names) if handler is not None else UNKNOWN

    def _sequence(self, node: Any, names: Names) -> Any:
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(self.items(node.elts, names))

    def items(self, nodes: list[ast.expr], names: Names) -> list[Any]:
        """The values of a list's items or of a call's positional arguments."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += iterate(self.evaluate(node.value, names))
            else:
                values.append(self.evaluate(node, names))
        return values

    def _mapping(self, node: ast.Dict, names: Names) -> Any:
        mapping: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                mapping.update(self.evaluate(value, names))
            else:
                mapping[self.evaluate(key, names)] = self.evaluate(value, names)
        return mapping

    def _attribute(self, node: ast.Attribute, names: Names) -> Any:
        base, name = self.evaluate(node.value, names), node.attr
        if isinstance(base, Module):
            return base.lookup(name) if base.has(name) else base.imported(base.name, name)
        if isinstance(base, Class):
            return base.attribute(name)
        if isinstance(base, Member):
            return {"value": base.value, "name": base.name}.get(name, UNKNOWN)
        if isinstance(base, External):
            return External(f"{base.name}.{name}")
        return getattr(base, name) if isinstance(base, _PLAIN) and name[0] != "_" else UNKNOWN

    def _subscript(self, node: ast.Subscript, names: Names) -> Any:
        base = self.evaluate(node.value, names)
        return base[self.evaluate(node.slice, names)] if isinstance(base, _PLAIN) else UNKNOWN

    def _text(self, node: ast.JoinedStr, names: Names) -> str:
        return "".join(_shown(self.evaluate(part, names)) for part in node.values)

    def _formatted(self, node: ast.FormattedValue, names: Names) -> Any:
        return self.evaluate(node.value, names)

    def _operation(self, node: Any, names: Names) -> Any:
        if isinstance(node, ast.UnaryOp):
            operands, what = [node.operand], node.op
        elif isinstance(node, ast.BinOp):
            operands, what = [node.left, node.right], node.op
        else:
            operands, what = [node.left, node.comparators[0]], node.ops[0]
        values = [self.evaluate(operand, names) for operand in operands]
        if isinstance(values[0], str) and isinstance(what, ast.Add):
            return values[0] + _shown(values[1])
        return _OPERATORS[type(what)](*values) if _are_known(values) else UNKNOWN

    def _either(self, node: ast.BoolOp, names: Names) -> Any:
        value = UNKNOWN
        for operand in node.values:
            value = self.evaluate(operand, names)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _choice(self, node: ast.IfExp, names: Names) -> Any:
        return self.evaluate(node.body if self.evaluate(node.test, names) else node.orelse, names)

    def _comprehension(self, node: Any, names: Names) -> list[Any]:
        (generator,) = node.generators
        results = []
        for item in iterate(self.evaluate(generator.iter, names)):
            inner = dict(names)
            bind(generator.target, item, inner)
            if all(self.evaluate(test, inner) for test in generator.ifs):
                results.append(self.evaluate(node.elt, inner))
        return results

    def _lambda(self, node: ast.Lambda, names: Names) -> Function:
        del names
        return Function(self, node)

    def _call(self, node: ast.Call, names: Names) -> Any:
        function = self.evaluate(node.func, names)
        answer = self.sources.call(function, node, self, names)
        if answer is not UNKNOWN:
            return answer
        values = self.items(node.args, names)
        keywords = {
            keyword.arg: self.evaluate(keyword.value, names)
            for keyword in node.keywords
            if keyword.arg
        }
        if isinstance(function, External):
            if function.name.rpartition(".")[2] in ("field", "Field"):
                return _field(values, keywords)
            if function.name in _BUILTINS and _are_known([*values, *keywords.values()]):
                plain = [iterate(value) if isinstance(value, Class) else value for value in values]
                return _BUILTINS[function.name](*plain, **keywords)
        if isinstance(function, Class) and function.is_enum and len(values) == 1:
            return next(
                (member for member in function.members() if member.value == values[0]), UNKNOWN
            )
        if isinstance(getattr(function, "__self__", None), _PLAIN):
            return function(*values, **keywords)
        return UNKNOWN


def _field(values: list[Any], keywords: Names) -> Field:
    default = keywords.get("default", values[0] if values else UNKNOWN)
    factory = keywords.get("default_factory")
    if isinstance(factory, Function) and isinstance(factory.node, ast.Lambda):
        default = factory.module.evaluate(factory.node.body)
    elif isinstance(factory, External) and factory.name in ("list", "dict", "set"):
        default = _BUILTINS[factory.name]()
    elif factory is not None:
        default = UNKNOWN
    limits = tuple((key, keywords[key]) for key in ("gt", "ge", "lt", "le") if key in keywords)
    return Field(default, limits)


def bind(target: ast.expr, value: Any, names: Names) -> None:
    """Gives a value to the target of an assignment or a loop."""
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element, item in zip(target.elts, iterate(value), strict=True):
            bind(element, item, names)


def iterate(value: Any) -> list[Any]:
    """The items of something that can be iterated.

    Raises:
        TypeError: When it cannot, or is not known.
    """
    if isinstance(value, Class):
        return list(value.members())
    return list(value)


def _are_known(values: list[Any]) -> bool:
    return not any(isinstance(value, (_Unknown, Function, External, Module)) for value in values)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, (str, int, float)) else "…"


_CONTAINERS = {
    "List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set", "Sequence": "list",
    "Mapping": "dict",
}  # fmt: skip
_TYPES = ("int", "float", "str", "bool", "dict", "list", "tuple", "set", "Any")


def hints_of(node: ast.AST, module: Module) -> list[Hint]:
    """The types of an annotation, those of a union or an alias one by one."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return hints_of(ast.parse(node.value, mode="eval").body, module)
        return [("None" if node.value is None else "other", (node.value,))]
    if isinstance(node, ast.BinOp):
        return [*hints_of(node.left, module), *hints_of(node.right, module)]
    if isinstance(node, ast.Subscript):
        return _hints_of_generic(node, module)
    name = ast.unparse(node)
    alias = module.alias(name)
    if alias is not None:
        return hints_of(alias[1], alias[0])
    value = module.evaluate(node)
    if isinstance(value, Class):
        return [("class", (value,))]
    short = name.rpartition(".")[2]
    short = _CONTAINERS.get(short, short)
    return [(short if short in _TYPES else "other", ())]


def _hints_of_generic(node: ast.Subscript, module: Module) -> list[Hint]:
    head = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Literal":
        return [("literal", tuple(_literals(inner, module)))]
    if head in ("Optional", "Union"):
        inner_hints = [hint for argument in inner for hint in hints_of(argument, module)]
        return [*inner_hints, ("None", ())] if head == "Optional" else inner_hints
    if head in ("Annotated", "A", "SkipValidation", "InitVar"):
        return hints_of(inner[0], module)
    head = _CONTAINERS.get(head, head)
    if head in ("list", "tuple", "set", "dict"):
        return [(head, tuple(tuple(hints_of(argument, module)) for argument in inner))]
    return [("other", ())]


def _literals(nodes: list[ast.expr], module: Module) -> Iterator[Any]:
    for node in nodes:
        inner = [] if isinstance(node, ast.Constant) else hints_of(node, module)
        if [kind for kind, _ in inner] == ["literal"]:  # a literal in a literal
            yield from inner[0][1]
        else:
            yield module.evaluate(node)
