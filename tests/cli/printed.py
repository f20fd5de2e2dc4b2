"""Output at a terminal and in a pipe."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any
from unittest import mock

from samples import plan_of

from fusioninfer_pulumi.cli.diff import Difference, compare
from fusioninfer_pulumi.cli.diff.terminal_text import print_diff
from fusioninfer_pulumi.cli.plan_output import PlanView
from fusioninfer_pulumi.cli.plan_text import print_plan
from fusioninfer_pulumi.cli.terminal import open_console
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def to_text(difference: Difference, *, color: bool = False, width: int | None = None) -> str:
    """Return a difference at a terminal; without color and width in a pipe."""
    file = Terminal() if color or width is not None else io.StringIO()
    environ = {"TERM": "xterm-256color", "COLUMNS": str(width or 1_000), "NO_COLOR": "1"}
    if color:
        del environ["NO_COLOR"]
    with mock.patch.dict(os.environ, environ), open_console(file) as screen:
        print_diff(difference, screen)
    return file.getvalue()


def plan_text(plan: ServicePlan, objects: Iterable[dict[str, Any]] = ()) -> str:
    """Return a plan as printed to a pipe."""
    file = io.StringIO()
    with open_console(file) as screen:
        print_plan(screen, PlanView(plan, objects=list(objects)))
    return file.getvalue()


def diff(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    """Return the difference between two services."""
    plans = plan_of(old), plan_of(new)
    return compare(*(list(render(plan)) for plan in plans), plans=([plans[0]], [plans[1]]))
