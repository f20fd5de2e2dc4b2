"""Writes `docs/rules.md`."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.rules.catalog import load_rules

_HEAD = """\
# What does an error or warning mean?

An error or warning ends with the ID of its rule in brackets, except in what `diff` and
`plan --update` report about an update. `fusioninfer-pulumi rules ID` prints the fix, the source and
an example.

| Severity | Effect |
|---|---|
| error | The service is rejected. |
| warning | The service is accepted, except with `--strict`. To hide a warning, pass \
`--ignore ID`, or set the annotation `fusioninfer.io/ignore-rules: ID,ID` on the service. |
| info | Printed only with `--verbose`. |
"""


def page() -> str:
    """Return `docs/rules.md`."""
    return "".join(_render_lines())


def _render_lines() -> Iterator[str]:
    yield _HEAD
    for area in sorted({rule.area for rule in load_rules().values()}):
        yield f"\n## {area}\n\n| Rule | Severity | Problem |\n|---|---|---|\n"
        for rule in load_rules().values():
            if rule.area == area:
                severities = "/".join(severity.value for severity in rule.severities)
                title = rule.title.replace("|", "\\|")
                yield f"| `{rule.id}` | {severities} | {title} |\n"
