"""What importers use of the core. How to write one: docs/importers.md."""

from __future__ import annotations

from fusioninfer_pulumi.api.messages import field_of, finding_error, findings_of, mismatch
from fusioninfer_pulumi.api.service import API_VERSION, KIND
from fusioninfer_pulumi.api.types import CountOrAnyPercentage
from fusioninfer_pulumi.endpoint_pickers.config import epp_config_text
from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES, EppFamily, Family, family_of
from fusioninfer_pulumi.endpoint_pickers.families import KIND as EPP_CONFIG_KIND
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import PORT_FLAG, EngineCommand
from fusioninfer_pulumi.engines.flags import flag_value, integer
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Origin,
    Rule,
    Severity,
    error,
    info,
    shown,
    warning,
)
from fusioninfer_pulumi.kube import durations, labels, names, quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.kube.durations import seconds
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.loading.importer import Conversion, ConvertedService, Importer, ObjectKey
from fusioninfer_pulumi.loading.origins import FieldOrigin, Origins
from fusioninfer_pulumi.loading.source import SourceDocument, SourceField
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN

__all__ = [
    "API_VERSION",
    "ENGINE_UNKNOWN",
    "EPP_CONFIG_KIND",
    "FAMILIES",
    "KIND",
    "PORT_FLAG",
    "SHARED_MEMORY",
    "Conversion",
    "ConvertedService",
    "CountOrAnyPercentage",
    "EngineCommand",
    "EppFamily",
    "Family",
    "FieldOrigin",
    "Finding",
    "Importer",
    "Location",
    "ObjectKey",
    "Origin",
    "Origins",
    "Rule",
    "Severity",
    "SourceDocument",
    "SourceField",
    "durations",
    "epp_config_text",
    "error",
    "family_of",
    "field_of",
    "finding_error",
    "findings_of",
    "flag_value",
    "info",
    "integer",
    "is_output",
    "labels",
    "mismatch",
    "names",
    "quantity",
    "read_command",
    "seconds",
    "shown",
    "warning",
]
