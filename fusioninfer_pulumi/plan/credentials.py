"""Credentials written into a pod template, where everybody who may read pods reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, join, warning
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.role import RoleArgs

_VARIABLE = re.compile(
    r"(HF|HUGGING_?FACE(_HUB)?|GITHUB)_TOKEN"
    r"|(\w+_)?(API|AUTH|ACCESS|BEARER)_TOKEN"
    r"|(\w+_)?(API|ACCESS|SECRET|PRIVATE)_KEY"
    r"|(\w+_)?(PASSWORD|PASSWD)",
    re.IGNORECASE,
)
_FLAG = re.compile(r"--(api-key|hf-token)(=(?P<value>.*))?", re.DOTALL)


def role_credentials(position: int, role: RoleArgs) -> Iterator[Finding]:
    """Checks the templates of a role that runs pods; see `credential_findings`."""
    templates = {
        "template": role.template,
        "leaderTemplate": role.leader_template,
        "workerTemplate": role.worker_template,
    }
    for field, template in templates.items():
        if template is not None:
            yield from credential_findings(join("roles", position, field), template)


def credential_findings(at: str, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Finds literal credentials among the variables and arguments of a template's containers.

    Args:
        at: Field that holds the template.
        template: The template, or a part of one.

    Yields:
        One warning each; what refers to a variable is no literal.
    """
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = f"{at}.spec.{key}[{index}]"
            yield from _variables(here, container)
            yield from _arguments(here, container)


def _variables(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    for index, variable in enumerate(container.get("env") or ()):
        name, value = str(variable.get("name")), variable.get("value")
        if _VARIABLE.fullmatch(name) and _is_literal(value):
            yield warning(
                f"{at}.env[{index}].value",
                f"{name} is a credential in plain text: everybody who may read pods reads it; use "
                "valueFrom.secretKeyRef",
            )


def _arguments(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("command", "args"):
        words = container.get(key) or ()
        for index, word in enumerate(words):
            match = _FLAG.fullmatch(word) if isinstance(word, str) else None
            if match is None:
                continue
            following = words[index + 1] if index + 1 < len(words) else None
            value = following if match["value"] is None else match["value"]
            if _is_literal(value):
                yield warning(
                    f"{at}.{key}[{index}]",
                    f"--{match[1]} is a credential in plain text: everybody who may read pods "
                    "reads it; take it from a Secret by an environment variable, $(NAME)",
                )


def _is_literal(value: Any) -> bool:
    return is_output(value) or (isinstance(value, str) and bool(value) and "$" not in value)
