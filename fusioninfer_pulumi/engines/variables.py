"""Variables of a container whose values are written out, and words that refer to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: What the kubelet expands in `command`, `args` and `env`; `$$` stands for a dollar sign.
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
#: What a shell expands.
SHELL_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def resolved(text: str, variables: Mapping[str, str], *, in_script: bool) -> str:
    """A word with the variables replaced whose values are known."""

    def value(match: re.Match[str]) -> str:
        name = next((group for group in match.groups() if group), None)
        return variables.get(name, match[0]) if name is not None else match[0]

    text = REFERENCE.sub(value, text)
    return SHELL_VARIABLE.sub(value, text) if in_script else text


def plain_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a container whose values are written out."""
    plain: dict[str, str] = {}
    listed = container.get("env")
    for variable in listed if isinstance(listed, (list, tuple)) else ():
        if not isinstance(variable, Mapping):
            continue
        name, value = variable.get("name"), variable.get("value")
        if isinstance(name, str):
            plain.pop(name, None)
            # The shell splits values with blanks, and values that refer to others are not known.
            if isinstance(value, str) and not re.search(r"[$\s]", value):
                plain[name] = value
    return plain
