"""Draws the pictures in the README: the output of `plan` for the DeepSeek example."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme

from fusioninfer_pulumi.cli.plan_output import PlanView
from fusioninfer_pulumi.cli.plan_text import print_plan
from fusioninfer_pulumi.cli.program.parent_process import run_program
from fusioninfer_pulumi.cli.terminal import VERBATIM
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan, compute_capacity_for_gpus

ROOT = Path(__file__).resolve().parent.parent
GPUS = (80, 64, 48, 32, 16)
# Columns of the terminal; GitHub shows a README at this width.
WIDTH = 112


def pictures() -> dict[str, str]:
    """Return the text of each picture by its name below `docs/pictures`."""
    (service,) = run_program(ROOT / "examples" / "deepseek-disagg").services
    themes = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
    assert service.plan is not None, "a service of a program has a plan"
    shown = _remove_infos(service.plan)
    return {f"plan-{name}.svg": _render_picture(shown, theme) for name, theme in themes.items()}


def _render_picture(plan: ServicePlan, theme: TerminalTheme) -> str:
    screen = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True,
        color_system="truecolor", no_color=False, **VERBATIM,
    )  # fmt: skip
    print_plan(screen, PlanView(plan, compute_capacity_for_gpus(plan, GPUS), list(render(plan))))
    svg = screen.export_svg(title="fusioninfer-pulumi plan", theme=theme, unique_id="plan")
    # Remove web fonts, so that the picture loads no other files.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def _remove_infos(plan: ServicePlan) -> ServicePlan:
    """Return the plan that the command prints without --verbose."""
    kept = (finding for finding in plan.findings if finding.severity is not Severity.INFO)
    return replace(plan, findings=tuple(kept))
