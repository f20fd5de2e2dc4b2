"""Output of the command line for documents."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.cli.main import main
from random_services.pods import Manifest

#: The rule id after a message, which older versions did not print.
_RULE_ID = re.compile(r" \[[a-z0-9]+(-[a-z0-9]+)*\]$")


@dataclass(frozen=True)
class Outcome:
    """Output of `render` and `plan`.

    Attributes:
        status: Exit status of `render`.
        objects: Output of `render`.
        findings: Errors and warnings of `render` and, if nothing was rejected, all findings of
            `plan`; without rule ids.
        plans: The rest of the output of `plan`; empty if the input was rejected.
    """

    status: int
    objects: str
    findings: list[str]
    plans: list[Any]


def outcome(documents: Sequence[Manifest]) -> Outcome:
    """Render documents as YAML, and plan them."""
    status, objects, messages = rendered(documents, "yaml")
    findings = {_RULE_ID.sub("", line) for line in messages.splitlines()}
    plans: list[Any] = []
    if status == 0:
        arguments = ["plan", "--output", "json", "--gpus", "64,12", "-"]
        plans = json.loads(_run(arguments, documents)[1])
        for number, plan in enumerate(plans, start=1):
            label = "<stdin>" if number == 1 else f"<stdin>#{number}"
            for item in plan.pop("findings"):
                place = f"{item['path']}: " if item["path"] else ""
                findings.add(f"{label}: {item['severity']}: {place}{item['message']}")
    return Outcome(status, objects, sorted(findings), plans)


def rendered(documents: Sequence[Manifest], output: str) -> tuple[int, str, str]:
    """Render documents as `yaml` or `json`.

    Returns:
        Exit status, standard output and standard error.
    """
    return _run(["render", "--output", output, "-"], documents)


class _Input:
    """Standard input that contains documents."""

    def __init__(self, documents: Sequence[Manifest]) -> None:
        texts = (json.dumps(document, ensure_ascii=False) for document in documents)
        self.buffer = io.BytesIO("".join(f"---\n{text}\n" for text in texts).encode())


def _run(arguments: list[str], documents: Sequence[Manifest]) -> tuple[int, str, str]:
    out, err, standard = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = _Input(documents)  # commands read only its buffer
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments)
    finally:
        sys.stdin = standard
    return status, out.getvalue(), err.getvalue()
