"""Checks of environment variables: references that nothing replaces, credentials in plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.variables import REFERENCE, SHELL_VARIABLE
from fusioninfer_pulumi.findings import Finding, Location, Rule, warning
from fusioninfer_pulumi.pods.credentials import credential_arguments, is_credential
from fusioninfer_pulumi.pods.pod import Context, RolePods

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


VARIABLE_NOT_DEFINED = Rule(
    "variable-not-defined",
    "warning",
    "The container has the variables that its command line and other variables refer to.",
    remedy="Add them to `env`, before what refers to them.",
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/",
)
SHELL_VARIABLE_WITHOUT_SHELL = Rule(
    "shell-variable-without-shell",
    "warning",
    "Words that no shell reads have no variables of a shell.",
    remedy="Write $(NAME), which the kubelet replaces.",
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/",
)

#: Variables that pods get beside their own: LeaderWorkerSet's, and those of Services.
_GIVEN = re.compile(r"LWS_\w+|KUBERNETES_\w+|\w+_(SERVICE_(HOST|PORT)|PORT)(_\w+)?")


def reference_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Warns of references that stay as they are written."""
    for pod in pods.written:
        built = {container["name"]: container for container in pod.spec["containers"]}
        for index, written in enumerate(pod.written["spec"]["containers"]):
            at = (*pod.path, "spec", "containers", index)
            names = [
                str(variable.get("name")) for variable in built[written["name"]].get("env") or ()
            ]
            known = None if written.get("envFrom") else frozenset(names)
            yield from _words(at, pod.commands.of(written), known)
            yield from _order(at, written)


def _words(at: Location, command: EngineCommand, known: frozenset[str] | None) -> Iterator[Finding]:
    argv = command.argv
    first = len(argv.command)
    if argv.script_at is not None:
        return
    for index, word in enumerate(argv.words):
        if not isinstance(word, str):
            continue
        here = (*at, "command", index) if index < first else (*at, "args", index - first)
        for name in _names(REFERENCE, word):
            if known is not None and name not in known and not _GIVEN.fullmatch(name):
                message = (
                    f"the container has no variable {name}, so the program gets $({name}) as it "
                    "stands; add it to env"
                )
                yield warning(VARIABLE_NOT_DEFINED, here, message)
        whole = SHELL_VARIABLE.fullmatch(word.partition("=")[2] or word)
        if whole is not None:
            message = (
                "no shell reads this, so the program gets it as it stands; write "
                f"$({whole[1] or whole[2]}), "
                "which the kubelet replaces"
            )
            yield warning(SHELL_VARIABLE_WITHOUT_SHELL, here, message)


def _order(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    """Variables that refer to later ones: the kubelet replaces those before them alone."""
    listed = [
        (str(variable.get("name")), variable.get("value"))
        for variable in container.get("env") or ()
    ]
    for index, (_, value) in enumerate(listed):
        if not isinstance(value, str):
            continue
        before = {name for name, _ in listed[:index]}
        later = {name for name, _ in listed[index + 1 :]} - before
        for name in _names(REFERENCE, value):
            if name in later and not container.get("envFrom"):
                message = f"$({name}) stays as it stands, as {name} is defined later; move it up"
                yield warning(VARIABLE_NOT_DEFINED, (*at, "env", index, "value"), message)


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(match[1] for match in pattern.finditer(text) if match[1]))
