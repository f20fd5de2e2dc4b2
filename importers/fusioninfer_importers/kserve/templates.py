"""Evaluates Go templates: the fields and functions that KServe offers in its specs.

KServe's controller evaluates the merged spec with the service's fields and its own functions
(ReplaceVariables). Unknown fields and functions are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.kserve._child_names import child_name
from fusioninfer_pulumi.plugins.importers import is_output

_ACTION = re.compile(r"\{\{(- )?(.*?)( -)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'\s*(?:(?P<text>`[^`]*`|"[^"\\]*")|(?P<number>-?[0-9]+)(?![\w.])'
    r"|(?P<field>(?:\.[A-Za-z]\w*)+|\.)|(?P<word>[A-Za-z]\w*)|(?P<mark>[()]))"
)
#: Keys whose Go fields are not the key with a capital letter.
_KEYS = {"URI": "uri", "LoRA": "lora", "HTTP": "http", "WVA": "wva", "HPA": "hpa", "KEDA": "keda"}
#: Seconds that vLLM has to end when pods say nothing, and those kept back from it.
_GRACE, _KEPT_BACK = 60, 5


class TemplateError(ValueError):
    """A template cannot be evaluated here; the message says which part, and why."""


@dataclass(frozen=True)
class Scope:
    """What templates may read.

    Attributes:
        metadata: The service's metadata.
        spec: The service's own spec, with the name of its model.
        settings: KServe's settings for the cluster (`.GlobalConfig`).
        child: The name of an object that KServe creates, by the service's name and a suffix.
    """

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    settings: Mapping[str, Any]
    child: Callable[[str, str], str] = child_name

    def field(self, path: str) -> Any:
        """Return the value of a field such as `.Spec.Model.Name`, None where it is not set.

        Raises:
            TemplateError: There is no such field, or none that is known here.
        """
        root, *parts = path[1:].split(".")
        if root == "GlobalConfig" and len(parts) == 1 and parts[0] in self.settings:
            return self.settings[parts[0]]
        roots = {"ObjectMeta": self.metadata, "Spec": self.spec}
        # Go promotes the fields of ObjectMeta.
        if root in ("Name", "Namespace", "Labels", "Annotations"):
            root, parts = "ObjectMeta", [root, *parts]
        if root not in roots or not parts:
            raise TemplateError(f"unknown field {path}")
        value: Any = roots[root]
        for part in parts:
            if value is None:
                raise TemplateError(f"{path} is used, but the service does not set its parent")
            if not isinstance(value, Mapping):
                raise TemplateError(f"unknown field {path}")
            value = value.get(_key(part))
        # Only these are maps.
        return value or None if parts[-1] in ("Labels", "Annotations") else value


def _key(name: str) -> str:
    """Return the key of a Go field."""
    if name in _KEYS:
        return _KEYS[name]
    if name.startswith("KV"):
        return f"kv{name[2:]}"
    return name[:1].lower() + name[1:]


def evaluate(text: str, scope: Scope) -> str:
    """Return a text with its templates evaluated.

    Raises:
        TemplateError: A template cannot be evaluated here.
    """
    parts = list(_split(text))
    out, rest = _block(parts, scope, live=True)
    if rest:
        raise TemplateError("{{ " + rest[0].content + " }} ends nothing")
    return out


@dataclass(frozen=True)
class _Part:
    """A piece of a text: an action in braces, or the text between actions."""

    content: str
    action: bool


def _split(text: str) -> Iterator[_Part]:
    # One blank next to each trim marker, so that it is not read as a minus.
    text = re.sub(r"\s+-\}\}", " -}}", re.sub(r"\{\{-\s+", "{{- ", text))
    position, trim = 0, False
    for action in _ACTION.finditer(text):
        before = text[position : action.start()]
        # KServe evaluates JSON, where a line break is two letters: only blanks are trimmed.
        before = before.lstrip(" ") if trim else before
        yield _Part(before.rstrip(" ") if action[1] else before, action=False)
        yield _Part(action[2].strip(), action=True)
        position, trim = action.end(), bool(action[3])
    last = text[position:]
    if "{{" in last:
        raise TemplateError("a template is not closed")
    yield _Part(last.lstrip(" ") if trim else last, action=False)


def _block(parts: list[_Part], scope: Scope, *, live: bool) -> tuple[str, list[_Part]]:
    """Return the text up to the end of a block, and the parts from the action that ends it."""
    out: list[str] = []
    while parts:
        part, parts = parts[0], parts[1:]
        word = part.content.split(" ", 1)[0] if part.action else ""
        if not part.action:
            out.append(part.content)
        elif word in ("else", "end"):
            return "".join(out), [part, *parts]
        elif word == "if":
            made, parts = _condition(part.content[2:], parts, scope, live=live)
            out.append(made)
        elif live:
            out.append(_printed(_value(part.content, scope), part.content))
    return "".join(out), []


def _condition(
    test: str, parts: list[_Part], scope: Scope, *, live: bool
) -> tuple[str, list[_Part]]:
    """Return the result of an `if`, and the parts after its `end`."""
    holds = live and _is_true(_value(test, scope))
    made, rest = _block(parts, scope, live=holds)
    if not rest:
        raise TemplateError("an if has no end")
    ending, rest = rest[0].content, rest[1:]
    if ending == "end":
        return made if holds else "", rest
    if ending == "else":
        other, rest = _block(rest, scope, live=live and not holds)
        if not rest or rest[0].content != "end":
            raise TemplateError("an if has no end")
        rest = rest[1:]
    elif ending.startswith("else if "):
        other, rest = _condition(ending[7:], rest, scope, live=live and not holds)
    else:
        raise TemplateError("{{ " + ending + " }} is not known here")
    return made if holds else other, rest


def _is_true(value: Any) -> bool:
    # Mappings are structs, which are true even when they are empty.
    return value is not None and value is not False and value not in (0, "", [])


def _printed(value: Any, action: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if value is None:
        raise TemplateError("{{ " + action + " }} has no value in this service")
    raise TemplateError("{{ " + action + " }} is no text")


def _value(expression: str, scope: Scope) -> Any:
    tokens = list(_tokens(expression))
    value, rest = _call(tokens, scope)
    if rest:
        raise TemplateError(f"{expression.strip()} cannot be read")
    return value


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    position, text = 0, expression.strip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            raise TemplateError(f"{text} is not supported")
        yield token.lastgroup, token[token.lastgroup]
        position = token.end()
        while position < len(text) and text[position].isspace():
            position += 1


_Tokens = list[tuple[str, str]]


def _call(tokens: _Tokens, scope: Scope) -> tuple[Any, _Tokens]:
    """Return a function with its arguments, or one operand; and the tokens after it."""
    if not tokens:
        raise TemplateError("an action is empty")
    kind, text = tokens[0]
    if kind != "word" or text in ("true", "false", "nil"):
        return _operand(tokens, scope)
    function, rest = _FUNCTIONS.get(text), tokens[1:]
    if function is None:
        raise TemplateError(f"unknown function {text}")
    arguments: list[Any] = []
    while rest and rest[0] != ("mark", ")"):
        if text in ("and", "or") and arguments and _is_true(arguments[-1]) is (text == "or"):
            rest = _skipped(rest)  # Go stops there, too
            continue
        argument, rest = _operand(rest, scope)
        arguments.append(argument)
    if not arguments:
        raise TemplateError(f"{text} has no arguments")
    return function(scope, *arguments), rest


def _operand(tokens: _Tokens, scope: Scope) -> tuple[Any, _Tokens]:
    if not tokens:
        raise TemplateError("a parenthesis is missing")
    (kind, text), rest = tokens[0], tokens[1:]
    if kind == "text":
        return text[1:-1], rest
    if kind == "number":
        return int(text), rest
    if kind == "field":
        if text == ".":
            raise TemplateError("unknown field .")
        value = scope.field(text)
        if is_output(value):
            raise TemplateError(f"{text} is an Output without a known value")
        return value, rest
    if (kind, text) == ("mark", "("):
        value, rest = _call(rest, scope)
        if not rest or rest[0] != ("mark", ")"):
            raise TemplateError("a parenthesis is missing")
        return value, rest[1:]
    if text in ("true", "false", "nil"):
        return {"true": True, "false": False, "nil": None}[text], rest
    raise TemplateError(f"{text} cannot be read")


def _skipped(tokens: _Tokens) -> _Tokens:
    """Return the tokens after one operand that is not evaluated."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += {("mark", "("): 1, ("mark", ")"): -1}.get(token, 0)
        if depth == 0:
            return tokens[index + 1 :]
    raise TemplateError("a parenthesis is missing")


def _child(scope: Scope, *arguments: Any) -> str:
    if len(arguments) != 2 or not all(isinstance(argument, str) for argument in arguments):
        raise TemplateError("ChildName takes a name and a suffix")
    return scope.child(*arguments)


def _or(scope: Scope, *arguments: Any) -> Any:
    del scope
    return next((argument for argument in arguments if _is_true(argument)), arguments[-1])


def _and(scope: Scope, *arguments: Any) -> Any:
    del scope
    return next((argument for argument in arguments if not _is_true(argument)), arguments[-1])


def _not(scope: Scope, *arguments: Any) -> bool:
    del scope
    if len(arguments) != 1:
        raise TemplateError("not takes one value")
    return not _is_true(arguments[0])


def _equal(scope: Scope, *arguments: Any) -> bool:
    del scope
    first, *others = arguments
    if not others or any(type(other) is not type(first) for other in others):
        raise TemplateError("eq compares values of different kinds")
    return first in others


def _kv_transfer(scope: Scope, *arguments: Any) -> str:
    del scope
    if arguments != (None,):
        raise TemplateError("kvTransferConfig is the presets' own; kvCacheOffloading alone does it")
    return ""


def _shutdown(scope: Scope, *arguments: Any) -> int:
    """Return vLLM's shutdown timeout: the grace period less the preStop hook and a margin."""
    del scope
    if len(arguments) != 2 or not isinstance(arguments[1], int):
        raise TemplateError("shutdownTimeout takes a pod spec and a number")
    pod, hook = arguments
    grace = pod.get("terminationGracePeriodSeconds") if isinstance(pod, Mapping) else None
    if grace is None:
        grace = _GRACE
    if not isinstance(grace, int):
        raise TemplateError("terminationGracePeriodSeconds is no number")
    rest: int = grace - hook - min(_KEPT_BACK, grace)
    return max(0, rest)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ChildName": _child,
    "and": _and,
    "eq": _equal,
    "kvTransferConfig": _kv_transfer,
    "not": _not,
    "or": _or,
    "shutdownTimeout": _shutdown,
}
