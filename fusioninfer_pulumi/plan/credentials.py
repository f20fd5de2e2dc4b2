"""Finds credentials that stand in a pod template as plain text.

Whoever may read pods, LeaderWorkerSets or the stack's state reads them there. Nothing is said of an
Output: whether its value is a secret cannot be told here. No message repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, join, warning
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs

# Variables that hold a credential whatever it looks like: model hubs, clouds, registries, and the
# endings that such names have by habit.
_NAMES = re.compile(
    r"HF_TOKEN|HUGGING_?FACE(HUB)?_(HUB_)?(API_)?TOKEN|HUGGINGFACEHUB_API_TOKEN"
    r"|MODELSCOPE_(API|SDK)_TOKEN|GITHUB_TOKEN|WANDB_API_KEY"
    r"|AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN)|AZURE_STORAGE_(KEY|SAS_TOKEN|CONNECTION_STRING)"
    r"|.+_(API_KEY|ACCESS_TOKEN|AUTH_TOKEN|BEARER_TOKEN|SECRET|SECRET_KEY|SECRET_ACCESS_KEY"
    r"|CLIENT_SECRET|PRIVATE_KEY|PASSWORD|PASSWD)"
)
# What credentials look like, wherever they stand.
_VALUES = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
# Flags of the engines that take one: vLLM's and SGLang's `--api-key`, vLLM's `--hf-token`.
_FLAG = re.compile(r"(--api-key|--hf-token|--admin-api-key)[= ]\S")
_FLAGS = ("--api-key", "--hf-token", "--admin-api-key")
# `$(NAME)` and `$NAME` stand for a variable, whose own value is looked at where it is given.
_REFERENCE = re.compile(r"\$(\([A-Za-z_]\w*\)|\{?[A-Za-z_]\w*\}?)")


def credential_findings(roles: Sequence[RoleArgs], *, without: set[int]) -> Iterator[Finding]:
    """Looks for credentials in every pod template of a service.

    Args:
        roles: All roles.
        without: Indexes of those whose templates are not well-formed.

    Yields:
        One warning for each place.
    """
    for position, role in enumerate(roles):
        if position in without:
            continue
        if role.component_type is ComponentType.ROUTER:
            picker = role.endpoint_picker
            if picker is not None and picker.template is not None:
                at = join("roles", position, "endpointPicker", "template")
                yield from _template(at, picker.template)
            continue
        templates = {
            "template": role.template,
            "leaderTemplate": role.leader_template,
            "workerTemplate": role.worker_template,
        }
        for field, template in templates.items():
            if template is not None:
                yield from _template(join("roles", position, field), template)


def _template(at: str, template: Mapping[str, Any]) -> Iterator[Finding]:
    spec = template.get("spec") or {}
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = f"{at}.spec.{key}[{index}]"
            for number, variable in enumerate(container.get("env") or ()):
                if _is_credential(str(variable.get("name")), variable.get("value")):
                    yield _found(f"{here}.env[{number}].value", "of this variable")
            for field in ("command", "args"):
                words = container.get(field)
                for number, word in enumerate(words if isinstance(words, list) else ()):
                    if _in_word(words[number - 1] if number else None, word):
                        yield _found(f"{here}.{field}[{number}]", "of a variable, $(NAME) here")


def _is_credential(name: str, value: Any) -> bool:
    if not isinstance(value, str) or not value or _REFERENCE.fullmatch(value):
        return False
    return _NAMES.fullmatch(name.upper()) is not None or _VALUES.search(value) is not None


def _in_word(before: Any, word: Any) -> bool:
    if not isinstance(word, str) or _REFERENCE.fullmatch(word):
        return False
    if _VALUES.search(word):
        return True
    if before in _FLAGS:
        return not word.startswith("-")
    match = _FLAG.search(word)
    return match is not None and _REFERENCE.match(word, match.end() - 1) is None


def _found(at: str, place: str) -> Finding:
    return warning(
        at,
        "is a credential in plain text, which everybody reads who may read the pod: put it into a "
        f"Secret, and name that as the value {place}: "
        "valueFrom: {secretKeyRef: {name: ..., key: ...}}",
    )
