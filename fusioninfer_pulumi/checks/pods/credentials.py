"""Credentials that stand in pods in plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

CREDENTIAL_IN_PLAIN_TEXT = Rule(
    "credential-in-plain-text",
    "warning",
    "Credentials are not written into pods in plain text.",
    remedy="Use `valueFrom.secretKeyRef`.",
    source="https://kubernetes.io/docs/concepts/configuration/secret/",
)

# Variables that hold a credential whatever it looks like: those of model hubs and clouds, and the
# endings that such names have by habit.
_VARIABLE = re.compile(
    r"(HF|HUGGING_?FACE(_?HUB)?|GITHUB)(_HUB)?(_API)?_TOKEN"
    r"|MODELSCOPE_SDK_TOKEN|AWS_SESSION_TOKEN|AZURE_STORAGE_(KEY|SAS_TOKEN|CONNECTION_STRING)"
    r"|(\w+_)?(API|AUTH|ACCESS|BEARER)_TOKEN"
    r"|(\w+_)?(API|SECRET|SECRET_ACCESS|PRIVATE)_KEY"
    r"|(\w+_)?(PASSWORD|PASSWD|CLIENT_SECRET)",
    re.IGNORECASE,
)
# What credentials look like, wherever they stand: Hugging Face, AWS, GitHub, NVIDIA, OpenAI, PEM.
_LOOK = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_FLAG = re.compile(r"--(api-key|admin-api-key|hf-token)(=(?P<value>.*))?", re.DOTALL)
_ADVICE = "put it into a Secret, and name that: valueFrom: {secretKeyRef: {name: ..., key: ...}}"


def role_credentials(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Warns of credentials in the templates of a role."""
    for pod in pods.written:
        yield from credential_findings(pod.path, pod.written)


def credential_findings(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Warns of each literal credential among the variables and arguments of a template.

    What refers to a variable is no literal.
    """
    spec = template.get("spec") or {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = (*at, "spec", key, index)
            yield from variable_findings(here, container.get("env") or ())
            yield from _arguments(here, container)


def variable_findings(at: Location, variables: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Warns of each literal credential among the variables of a container."""
    for index, variable in enumerate(variables):
        name = str(variable.get("name"))
        value: Any = variable.get("value")
        if not _is_literal(value):
            continue
        if _VARIABLE.fullmatch(name) or _LOOK.search(value):
            yield warning(
                CREDENTIAL_IN_PLAIN_TEXT,
                (*at, "env", index, "value"),
                f"{name} is a credential in plain text: everybody who may read pods reads it; "
                f"{_ADVICE}",
            )


def _arguments(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("command", "args"):
        held = container.get(key)
        words = held if isinstance(held, (list, tuple)) else ()
        for index, word in enumerate(words):
            name = _named(word, words[index + 1] if index + 1 < len(words) else None)
            # A value after a flag is reported at the flag.
            behind = index > 0 and _named(words[index - 1], word) is not None
            if name is not None and not behind:
                yield warning(
                    CREDENTIAL_IN_PLAIN_TEXT,
                    (*at, key, index),
                    f"{name} is a credential in plain text: everybody who may read pods reads it; "
                    f"take it from a variable, $(NAME), and {_ADVICE}",
                )


def _named(word: Any, following: Any) -> str | None:
    """What to call the credential that an argument is, None when it is none."""
    if not isinstance(word, str):
        return None
    match = _FLAG.fullmatch(word)
    if match is None:
        return "one of its words" if _LOOK.search(word) else None
    value = following if match["value"] is None else match["value"]
    return f"--{match[1]}" if _is_literal(value) else None


def _is_literal(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "$" not in value
