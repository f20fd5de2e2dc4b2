"""Names of the core for importers. docs/importers.md explains how to write one."""

from __future__ import annotations

from fusioninfer_pulumi.api.field_types import CountOrAnyPercentage as CountOrAnyPercentage
from fusioninfer_pulumi.api.service import API_VERSION as API_VERSION, KIND as KIND
from fusioninfer_pulumi.api.validation_errors import (
    drop_key_marker as drop_key_marker,
    pydantic_findings as pydantic_findings,
    rule_error as rule_error,
)
from fusioninfer_pulumi.endpoint_pickers.picker_config import dump_epp_config as dump_epp_config
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND as EPP_CONFIG_KIND,
    FAMILIES as FAMILIES,
    EppFamily as EppFamily,
    find_family as find_family,
)
from fusioninfer_pulumi.engines.command_flags import (
    get_flag_value as get_flag_value,
    parse_integer as parse_integer,
)
from fusioninfer_pulumi.engines.engine import PORT_FLAG as PORT_FLAG, EngineCommand as EngineCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command as parse_command
from fusioninfer_pulumi.findings import (
    Finding as Finding,
    Location as Location,
    Origin as Origin,
    Rule as Rule,
    Severity as Severity,
    error as error,
    find_closest as find_closest,
    info as info,
    quote_value as quote_value,
    warning as warning,
)
from fusioninfer_pulumi.kube import (
    labels as labels,
    object_names as object_names,
    quantity as quantity,
)
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY as SHARED_MEMORY
from fusioninfer_pulumi.kube.durations import parse_duration as parse_duration
from fusioninfer_pulumi.kube.pulumi_outputs import is_output as is_output
from fusioninfer_pulumi.loading.importer import (
    Conversion as Conversion,
    ConvertedService as ConvertedService,
    FieldOrigin as FieldOrigin,
    Importer as Importer,
    Origins as Origins,
    SourceDocument as SourceDocument,
    SourceField as SourceField,
)
from fusioninfer_pulumi.rules.common import (
    ENGINE_UNKNOWN as ENGINE_UNKNOWN,
    WRONG_TYPE as WRONG_TYPE,
)
