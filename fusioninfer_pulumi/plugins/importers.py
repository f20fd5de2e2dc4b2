"""Names of the core for importers. docs/importers.md explains how to write one."""

from __future__ import annotations

from fusioninfer_pulumi.api.field_types import CountOrAnyPercentage
from fusioninfer_pulumi.api.service import API_VERSION, KIND
from fusioninfer_pulumi.api.validation_errors import (
    field_of,
    finding_error,
    pydantic_findings,
    type_mismatch,
)
from fusioninfer_pulumi.endpoint_pickers.picker_config import dump_epp_config
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND,
    FAMILIES,
    EppFamily,
    Family,
    find_family,
)
from fusioninfer_pulumi.engines.command_flags import get_flag_value, integer
from fusioninfer_pulumi.engines.engine import PORT_FLAG, EngineCommand
from fusioninfer_pulumi.engines.engine_commands import read_command
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Origin,
    Rule,
    Severity,
    error,
    find_closest,
    info,
    show,
    warning,
)
from fusioninfer_pulumi.kube import labels, object_names, quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.kube.durations import seconds
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.loading.importer import (
    Conversion,
    ConvertedService,
    FieldOrigin,
    Importer,
    ObjectKey,
    Origins,
    SourceDocument,
    SourceField,
)
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
    "dump_epp_config",
    "error",
    "field_of",
    "find_closest",
    "find_family",
    "finding_error",
    "get_flag_value",
    "info",
    "integer",
    "is_output",
    "labels",
    "object_names",
    "pydantic_findings",
    "quantity",
    "read_command",
    "seconds",
    "show",
    "type_mismatch",
    "warning",
]
