"""The pictures of the first page: what `plan` prints of the DeepSeek example, light and dark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME

from fusioninfer_pulumi.cli.plan_text import plan_svg
from fusioninfer_pulumi.cli.program import run_program
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.plan.objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.topology import capacity_for_gpus

ROOT = Path(__file__).resolve().parent.parent
GPUS = (80, 64, 48, 32, 16)


def pictures() -> dict[str, str]:
    """The text of each picture by its name below `docs/pictures`."""
    recording = run_program(ROOT / "examples" / "deepseek-disagg")
    rows = [
        (_without_infos(plan), capacity_for_gpus(plan, GPUS), list(render(plan)), None)
        for plan in recording.plans
    ]
    themes = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
    return {f"plan-{name}.svg": plan_svg(rows, theme=theme) for name, theme in themes.items()}


def _without_infos(plan: ServicePlan) -> ServicePlan:
    """As the command prints it without --verbose."""
    kept = (finding for finding in plan.findings if finding.severity is not Severity.INFO)
    return replace(plan, findings=tuple(kept))
