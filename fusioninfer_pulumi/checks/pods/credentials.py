"""Credentials that stand in pods in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.credentials import credential_arguments, is_credential
from fusioninfer_pulumi.pods.pod import Context

CREDENTIAL_IN_PLAIN_TEXT = Rule(
    "credential-in-plain-text",
    "warning",
    "Credentials are not written into pods in plain text.",
    remedy="Use `valueFrom.secretKeyRef`.",
    source="https://kubernetes.io/docs/concepts/configuration/secret/",
)

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
        if is_credential(name, variable.get("value")):
            yield warning(
                CREDENTIAL_IN_PLAIN_TEXT,
                (*at, "env", index, "value"),
                f"{name} is a credential in plain text: everybody who may read pods reads it; "
                f"{_ADVICE}",
            )


def _arguments(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("command", "args"):
        words = container.get(key)
        for index, name in credential_arguments(words if isinstance(words, (list, tuple)) else ()):
            yield warning(
                CREDENTIAL_IN_PLAIN_TEXT,
                (*at, key, index),
                f"{name} is a credential in plain text: everybody who may read pods reads it; "
                f"take it from a variable, $(NAME), and {_ADVICE}",
            )
