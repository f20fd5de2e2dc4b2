"""Evaluates Go templates with the fields and functions that KServe provides in its specs.

KServe's controller evaluates the merged spec with the service's fields and its own functions
(ReplaceVariables). Unknown fields and functions are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.kserve._child_names import name_child
from fusioninfer_pulumi.plugins.importers import is_output

_ACTION = re.compile(r"\{\{(- )?(.*?)( -)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'\s*(?:(?P<text>`[^`]*`|"[^"\\]*")|(?P<number>-?[0-9]+)(?![\w.])'
    r"|(?P<field>(?:\.[A-Za-z]\w*)+|\.)|(?P<word>[A-Za-z]\w*)|(?P<mark>[()]))"
)
#: JSON keys of Go fields that are not just the field's name with a lowercase first letter.
_KEYS = {"URI": "uri", "LoRA": "lora", "HTTP": "http", "WVA": "wva", "HPA": "hpa", "KEDA": "keda"}
#: Default grace period of pods, and the part of it that vLLM's shutdown does not get.
_GRACE_SECONDS, _MARGIN_SECONDS = 60, 5


class TemplateError(ValueError):
    """A template cannot be evaluated here; the message says which part, and why."""


@dataclass(frozen=True)
class Scope:
    """Values that templates may read.

    Attributes:
        metadata: The service's metadata.
        spec: The service's own spec, with the name of its model.
        settings: KServe's settings for the cluster (`.GlobalConfig`).
        build_child_name: Builds the name of a KServe object from the service's name and a suffix.
    """

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    settings: Mapping[str, Any]
    build_child_name: Callable[[str, str], str] = name_child

    def get_field(self, path: str) -> Any:
        """Return the value of a field such as `.Spec.Model.Name`, or None if it is not set.

        Raises:
            TemplateError: The field is unknown.
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
            value = value.get(_convert_key(part))
        # Only these are maps in Go, which are false when empty.
        return value or None if parts[-1] in ("Labels", "Annotations") else value


def _convert_key(name: str) -> str:
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
    parts = list(_split_text(text))
    out, rest = _evaluate_block(parts, scope, is_live=True)
    if rest:
        raise TemplateError("{{ " + rest[0].content + " }} has no matching if")
    return out


@dataclass(frozen=True)
class _Part:
    """A piece of a text: an action in braces, or the text between actions."""

    content: str
    is_action: bool


def _split_text(text: str) -> Iterator[_Part]:
    # One blank next to each trim marker, so that it is not read as a minus.
    text = re.sub(r"\s+-\}\}", " -}}", re.sub(r"\{\{-\s+", "{{- ", text))
    position, trim = 0, False
    for action in _ACTION.finditer(text):
        literal = text[position : action.start()]
        # KServe evaluates JSON, where a line break is two letters: only blanks are trimmed.
        literal = literal.lstrip(" ") if trim else literal
        yield _Part(literal.rstrip(" ") if action[1] else literal, is_action=False)
        yield _Part(action[2].strip(), is_action=True)
        position, trim = action.end(), bool(action[3])
    tail = text[position:]
    if "{{" in tail:
        raise TemplateError("a template is not closed")
    yield _Part(tail.lstrip(" ") if trim else tail, is_action=False)


def _evaluate_block(parts: list[_Part], scope: Scope, *, is_live: bool) -> tuple[str, list[_Part]]:
    """Return the text up to the end of a block, and the parts from the action that ends it.

    `is_live` is whether the block is used; the actions of other blocks are not evaluated.
    """
    out: list[str] = []
    while parts:
        part, parts = parts[0], parts[1:]
        word = part.content.split(" ", 1)[0] if part.is_action else ""
        if not part.is_action:
            out.append(part.content)
        elif word in ("else", "end"):
            return "".join(out), [part, *parts]
        elif word == "if":
            result, parts = _evaluate_condition(part.content[2:], parts, scope, is_live=is_live)
            out.append(result)
        elif is_live:
            out.append(_format_value(_evaluate_expression(part.content, scope), part.content))
    return "".join(out), []


def _evaluate_condition(
    test: str, parts: list[_Part], scope: Scope, *, is_live: bool
) -> tuple[str, list[_Part]]:
    """Return the result of an `if`, and the parts after its `end`."""
    is_true = is_live and _is_true(_evaluate_expression(test, scope))
    result, rest = _evaluate_block(parts, scope, is_live=is_true)
    if not rest:
        raise TemplateError("an if has no end")
    ending, rest = rest[0].content, rest[1:]
    if ending == "end":
        return (result if is_true else ""), rest
    if ending == "else":
        other, rest = _evaluate_block(rest, scope, is_live=is_live and not is_true)
        if not rest or rest[0].content != "end":
            raise TemplateError("an if has no end")
        rest = rest[1:]
    elif ending.startswith("else if "):
        other, rest = _evaluate_condition(ending[7:], rest, scope, is_live=is_live and not is_true)
    else:
        raise TemplateError("{{ " + ending + " }} is not supported")
    return (result if is_true else other), rest


def _is_true(value: Any) -> bool:
    # Mappings are structs, which are true even when they are empty.
    return value is not None and value is not False and value not in (0, "", [])


def _format_value(value: Any, action: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if value is None:
        raise TemplateError("{{ " + action + " }} has no value in this service")
    raise TemplateError("{{ " + action + " }} is not a string or a number")


def _evaluate_expression(expression: str, scope: Scope) -> Any:
    tokens = list(_split_tokens(expression))
    value, rest = _evaluate_call(tokens, scope)
    if rest:
        raise TemplateError(f"{expression.strip()} cannot be read")
    return value


def _split_tokens(expression: str) -> Iterator[tuple[str, str]]:
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


def _evaluate_call(tokens: _Tokens, scope: Scope) -> tuple[Any, _Tokens]:
    """Return the value of a function call or of one operand, and the tokens after it."""
    if not tokens:
        raise TemplateError("an action is empty")
    kind, text = tokens[0]
    if kind != "word" or text in ("true", "false", "nil"):
        return _evaluate_operand(tokens, scope)
    function, rest = _FUNCTIONS.get(text), tokens[1:]
    if function is None:
        raise TemplateError(f"unknown function {text}")
    arguments: list[Any] = []
    while rest and rest[0] != ("mark", ")"):
        if text in ("and", "or") and arguments and _is_true(arguments[-1]) is (text == "or"):
            rest = _skip_operand(rest)  # the last argument decides; Go evaluates no more, either
            continue
        argument, rest = _evaluate_operand(rest, scope)
        arguments.append(argument)
    if not arguments:
        raise TemplateError(f"{text} has no arguments")
    return function(scope, *arguments), rest


def _evaluate_operand(tokens: _Tokens, scope: Scope) -> tuple[Any, _Tokens]:
    """Return the value of one operand, and the tokens after it."""
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
        value = scope.get_field(text)
        if is_output(value):
            raise TemplateError(f"{text} is an Output without a known value")
        return value, rest
    if (kind, text) == ("mark", "("):
        value, rest = _evaluate_call(rest, scope)
        if not rest or rest[0] != ("mark", ")"):
            raise TemplateError("a parenthesis is missing")
        return value, rest[1:]
    if text in ("true", "false", "nil"):
        return {"true": True, "false": False, "nil": None}[text], rest
    raise TemplateError(f"{text} cannot be read")


def _skip_operand(tokens: _Tokens) -> _Tokens:
    """Return the tokens after one operand that is not evaluated."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += {("mark", "("): 1, ("mark", ")"): -1}.get(token, 0)
        if depth == 0:
            return tokens[index + 1 :]
    raise TemplateError("a parenthesis is missing")


def _build_child_name(scope: Scope, *arguments: Any) -> str:
    if len(arguments) != 2 or not all(isinstance(argument, str) for argument in arguments):
        raise TemplateError("ChildName takes a name and a suffix")
    return scope.build_child_name(*arguments)


def _evaluate_or(scope: Scope, *arguments: Any) -> Any:
    del scope
    return next((argument for argument in arguments if _is_true(argument)), arguments[-1])


def _evaluate_and(scope: Scope, *arguments: Any) -> Any:
    del scope
    return next((argument for argument in arguments if not _is_true(argument)), arguments[-1])


def _evaluate_not(scope: Scope, *arguments: Any) -> bool:
    del scope
    if len(arguments) != 1:
        raise TemplateError("not takes one value")
    return not _is_true(arguments[0])


def _evaluate_eq(scope: Scope, *arguments: Any) -> bool:
    del scope
    first, *other_values = arguments
    if not other_values or any(type(other) is not type(first) for other in other_values):
        raise TemplateError("eq compares values of different kinds")
    return first in other_values


def _evaluate_kv_transfer_config(scope: Scope, *arguments: Any) -> str:
    del scope
    if arguments != (None,):
        raise TemplateError(
            "kvTransferConfig is reserved for KServe's presets; set kvCacheOffloading"
        )
    return ""


def _compute_shutdown_timeout(scope: Scope, *arguments: Any) -> int:
    """Return vLLM's shutdown timeout: the grace period less the preStop hook and a margin."""
    del scope
    if len(arguments) != 2 or not isinstance(arguments[1], int):
        raise TemplateError("shutdownTimeout takes a pod spec and a number")
    pod, pre_stop_seconds = arguments
    grace = pod.get("terminationGracePeriodSeconds") if isinstance(pod, Mapping) else None
    if grace is None:
        grace = _GRACE_SECONDS
    if not isinstance(grace, int):
        raise TemplateError("terminationGracePeriodSeconds must be a number")
    rest: int = grace - pre_stop_seconds - min(_MARGIN_SECONDS, grace)
    return max(0, rest)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ChildName": _build_child_name,
    "and": _evaluate_and,
    "eq": _evaluate_eq,
    "kvTransferConfig": _evaluate_kv_transfer_config,
    "not": _evaluate_not,
    "or": _evaluate_or,
    "shutdownTimeout": _compute_shutdown_timeout,
}
