"""All checks of an EndpointPickerConfig that a user wrote, in the order in which they run.

An error is what stops the endpoint picker, which then crash-loops; a warning is what it accepts
without doing what the text says. Every verdict was compared with the pickers of the releases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fusioninfer_pulumi.checks.picker_config.disaggregation import handler_findings
from fusioninfer_pulumi.checks.picker_config.plugins import plugin_findings
from fusioninfer_pulumi.checks.picker_config.profiles import load_findings, profile_findings
from fusioninfer_pulumi.checks.picker_config.sections import (
    document_findings,
    gate_findings,
    header_findings,
    section_findings,
)
from fusioninfer_pulumi.checks.picker_config.written import WrittenConfig, not_a_mapping
from fusioninfer_pulumi.endpoint_pickers.config_text import UnreadableError, read_config
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily
from fusioninfer_pulumi.endpoint_pickers.rules import PICKER_CONFIG_INVALID
from fusioninfer_pulumi.findings import Finding, Rule, error

PICKER_CONFIG_EMPTY = Rule(
    "picker-config-empty",
    "error",
    "A picker configuration is not empty.",
    remedy="Fill it, or remove it.",
)

CHECKS: tuple[Callable[[WrittenConfig], Iterable[Finding]], ...] = (
    header_findings,
    section_findings,
    gate_findings,
    document_findings,
    plugin_findings,
    profile_findings,
    load_findings,
    handler_findings,
)


def check_config(text: str, family: EppFamily, *, own_image: bool = False) -> list[Finding]:
    """Findings located in a user's configuration (`plugins[2].parameters.blockSize`).

    An `own_image` may register plugins that its family does not, which is then no error.
    """
    try:
        content, more = read_config(text)
    except UnreadableError as problem:
        return [error(PICKER_CONFIG_INVALID, (), str(problem))]
    if content is None:
        message = "is empty; leave endpointPickerConfig out to use a strategy"
        return [error(PICKER_CONFIG_EMPTY, (), message)]
    if not isinstance(content, dict):
        return [not_a_mapping((), content)]
    config = WrittenConfig(content, family, own_image=own_image, more=more)
    return [finding for check in CHECKS for finding in check(config)]
