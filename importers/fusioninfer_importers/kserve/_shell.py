"""Splits arguments like the shell script of KServe's presets.

The script ends in `eval "exec vllm serve ... ${VLLM_ADDITIONAL_ARGS} $@"`: a shell reads the
container's args and that variable once more, after the kubelet has expanded `$(NAME)`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kserve._nodes import Node
from fusioninfer_importers.rules import SHELL_EXPANSION_UNSUPPORTED

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
#: Quoted and unquoted parts of a text, which a shell parses by different rules.
_PIECE = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^'"\\]+|.""", re.DOTALL)
_VARIABLE = re.compile(rf"\$(?:\{{({_NAME})\}}|({_NAME}))")
_KUBELET_VARIABLE = re.compile(rf"\$\(({_NAME})\)")
#: Other expansions of a shell: `$1`, `$?`, `${A:-b}`.
_OTHER_EXPANSION = re.compile(r"\$(?:\{[^}]*\}?|[0-9@*#?!$-])")


def split_container_args(
    report: ConversionReport, args: Node, names: Collection[str]
) -> Iterator[Node]:
    """Yield the arguments that the shell makes of a container's args.

    Each argument keeps its own source field if the shell does not change the list.
    """
    joined = Node(args.field, " ".join(str(argument) for argument in args.value))
    try:
        is_unchanged = shlex.split(joined.content) == args.value
    except ValueError:
        is_unchanged = False
    if not is_unchanged:
        yield from split_shell_text(report, joined, names, names)
        return
    for item in args.items:
        if "$" in item.content or "`" in item.content:
            yield from split_shell_text(report, item, names, names)
        else:
            yield item


def split_shell_text(
    report: ConversionReport, node: Node, names: Collection[str], expanded: Collection[str]
) -> Iterator[Node]:
    """Yield the arguments that the shell makes of a text; none, and an error, if they are unknown.

    `names` are the variables that the shell knows, `expanded` those that the kubelet expands here.
    """
    text = str(node.content)
    error = _find_error(text, names, expanded)
    if error is not None:
        report.error(SHELL_EXPANSION_UNSUPPORTED, node.field, error)
        return
    if any(name in names for name in _find_variables(text)):
        report.translated(node.field, "the kubelet expands its variables, even inside quotes")
    try:
        parts = shlex.split(
            "".join(_use_kubelet_syntax(piece, names) for piece in _PIECE.findall(text))
        )
    except ValueError as exc:
        report.invalid(node.field, f"is not valid shell syntax: {exc}")
        return
    for part in parts:
        yield Node(node.field, part)


def _find_error(text: str, names: Collection[str], expanded: Collection[str]) -> str | None:
    """Return an error message if only a shell in the pod can compute the arguments."""
    pieces = [re.sub(r"\\.", "", piece, flags=re.DOTALL) for piece in _PIECE.findall(text)]
    # Nothing expands between single quotes, or after a backslash.
    unquoted = " ".join(piece for piece in pieces if not piece.startswith("'"))
    rest = _KUBELET_VARIABLE.sub(lambda match: "" if match[1] in expanded else match[0], unquoted)
    if "$(" in rest or "`" in rest:
        return "runs a program to compute its arguments; write the value"
    # Examples in KServe's documentation expect variables in single quotes to be expanded, too.
    unknown = [name for name in _find_variables(" ".join(pieces)) if name not in names]
    if unknown:
        return f"refers to {', '.join(unknown)}, which the container's env does not define"
    expansion = _OTHER_EXPANSION.search(_VARIABLE.sub("", rest))
    if expansion is not None:
        return f"contains {expansion[0]}, which only a shell in the pod can expand; write the value"
    return None


def _find_variables(text: str) -> list[str]:
    return [match[1] or match[2] for match in _VARIABLE.finditer(text)]


def _use_kubelet_syntax(piece: str, names: Collection[str]) -> str:
    """Return a part of a text with its variables in the kubelet's syntax: `$(NAME)`."""
    if piece.startswith("\\"):
        return piece

    def convert_match(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"$({name})" if name in names else match[0]

    if not piece.startswith('"'):
        return _VARIABLE.sub(convert_match, piece)

    def convert_part(part: str) -> str:
        if part in (r"\$", r"\`"):
            return part[1:]  # in double quotes, a shell removes this backslash but shlex does not
        return part if part.startswith("\\") else _VARIABLE.sub(convert_match, part)

    return "".join(map(convert_part, re.split(r"(\\.)", piece, flags=re.DOTALL)))
