"""Writes `docs/rules.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from fusioninfer_pulumi.cli.output import to_yaml
from fusioninfer_pulumi.rules.catalog import RuleEntry, all_rules, bases

_HEAD = """\
# Rules

Every finding names its rule. `fusioninfer-pulumi rules ID` prints one of them with an input that
violates it. Written by `make regenerate`.

| Severity | Means |
|---|---|
| error | It cannot work: refused, always. |
| warning | It is allowed and probably wrong; `--strict` refuses it. `--ignore ID`, or the \
annotation `fusioninfer.io/ignore-rules: ID,ID` of the service, silences it. |
| info | Worth knowing; printed with `--verbose`. |

An example sets fields of one of four manifests, which stand at the end: paths are relative to
`spec`, as in messages; null removes a field.
"""


def page() -> str:
    """`docs/rules.md`."""
    return "".join(_page())


def _page() -> Iterator[str]:
    yield _HEAD
    for area in sorted({rule.area for rule in all_rules().values()}):
        yield f"\n## {area}\n"
        for rule in all_rules().values():
            if rule.area == area:
                yield from _section(rule)
    yield "\n## Manifests of the examples\n"
    for name, manifest in bases().items():
        yield f"\n### {name}\n\n```yaml\n{to_yaml([manifest])}```\n"


def _section(rule: RuleEntry) -> Iterator[str]:
    severities = " or ".join(severity.value for severity in rule.severities)
    source = f" Source: {rule.source}." if rule.source else ""
    yield f"\n### {rule.id}\n*{severities}*: {rule.title} {rule.remedy}{source}\n"
    if not isinstance(rule.example, str):
        ((base, fields),) = rule.example.items()
        yield f"```yaml\n{''.join(_example(base, fields))}```\n"


def _example(base: str, fields: Any) -> Iterator[str]:
    if base == "text":
        yield f"{fields.rstrip()}\n"
    elif base == "documents":
        for document in fields:
            yield f"- {_flow(document)}"
    else:
        yield f"# on {base}\n"
        for path, value in fields.items():
            yield f"{path}: {_flow(value)}"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=110)
    return text.removesuffix("...\n")
