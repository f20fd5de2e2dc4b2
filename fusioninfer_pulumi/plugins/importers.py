"""Names of the core for importers. docs/importers.md explains how to write one."""

from __future__ import annotations

from fusioninfer_pulumi.api.field_types import CountOrAnyPercentage as CountOrAnyPercentage
from fusioninfer_pulumi.api.service import API_VERSION as API_VERSION
from fusioninfer_pulumi.api.service import KIND as KIND
from fusioninfer_pulumi.api.validation_errors import field_of as field_of
from fusioninfer_pulumi.api.validation_errors import finding_error as finding_error
from fusioninfer_pulumi.api.validation_errors import pydantic_findings as pydantic_findings
from fusioninfer_pulumi.api.validation_errors import type_mismatch as type_mismatch
from fusioninfer_pulumi.endpoint_pickers.picker_config import dump_epp_config as dump_epp_config
from fusioninfer_pulumi.endpoint_pickers.picker_families import EPP_CONFIG_KIND as EPP_CONFIG_KIND
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES as FAMILIES
from fusioninfer_pulumi.endpoint_pickers.picker_families import EppFamily as EppFamily
from fusioninfer_pulumi.endpoint_pickers.picker_families import Family as Family
from fusioninfer_pulumi.endpoint_pickers.picker_families import find_family as find_family
from fusioninfer_pulumi.engines.command_flags import get_flag_value as get_flag_value
from fusioninfer_pulumi.engines.command_flags import integer as integer
from fusioninfer_pulumi.engines.engine import PORT_FLAG as PORT_FLAG
from fusioninfer_pulumi.engines.engine import EngineCommand as EngineCommand
from fusioninfer_pulumi.engines.engine_commands import read_command as read_command
from fusioninfer_pulumi.findings import Finding as Finding
from fusioninfer_pulumi.findings import Location as Location
from fusioninfer_pulumi.findings import Origin as Origin
from fusioninfer_pulumi.findings import Rule as Rule
from fusioninfer_pulumi.findings import Severity as Severity
from fusioninfer_pulumi.findings import error as error
from fusioninfer_pulumi.findings import info as info
from fusioninfer_pulumi.findings import show as show
from fusioninfer_pulumi.findings import warning as warning
from fusioninfer_pulumi.kube import durations as durations
from fusioninfer_pulumi.kube import labels as labels
from fusioninfer_pulumi.kube import object_names as object_names
from fusioninfer_pulumi.kube import quantity as quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY as SHARED_MEMORY
from fusioninfer_pulumi.kube.durations import seconds as seconds
from fusioninfer_pulumi.kube.pulumi_outputs import is_output as is_output
from fusioninfer_pulumi.loading.importer import Conversion as Conversion
from fusioninfer_pulumi.loading.importer import ConvertedService as ConvertedService
from fusioninfer_pulumi.loading.importer import FieldOrigin as FieldOrigin
from fusioninfer_pulumi.loading.importer import Importer as Importer
from fusioninfer_pulumi.loading.importer import ObjectKey as ObjectKey
from fusioninfer_pulumi.loading.importer import Origins as Origins
from fusioninfer_pulumi.loading.importer import SourceDocument as SourceDocument
from fusioninfer_pulumi.loading.importer import SourceField as SourceField
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN as ENGINE_UNKNOWN
