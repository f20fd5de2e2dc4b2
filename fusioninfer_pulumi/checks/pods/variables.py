"""References to variables that nothing replaces: in words that no shell reads, and out of order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.variables import REFERENCE, SHELL_VARIABLE
from fusioninfer_pulumi.findings import Finding, Location, Rule, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

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
