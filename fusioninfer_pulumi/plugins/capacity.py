"""Names of the core for capacity packages. docs/capacity.md explains how to write one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.api.engine import EngineArgs as EngineArgs
from fusioninfer_pulumi.api.inventory import (
    InventoryArgs as InventoryArgs,
    NodePoolArgs as NodePoolArgs,
    ServicePlacementArgs as ServicePlacementArgs,
    TaintArgs as TaintArgs,
    TaintEffect as TaintEffect,
)
from fusioninfer_pulumi.api.model import (
    ModelArgs as ModelArgs,
    hub_name as hub_name,
    parse_model_uri as parse_model_uri,
)
from fusioninfer_pulumi.api.role import RoleArgs as RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs as InferenceServiceArgs
from fusioninfer_pulumi.capacity_package import (
    MEMORY_NOT_CHECKED as MEMORY_NOT_CHECKED,
    CapacityPackage as CapacityPackage,
)
from fusioninfer_pulumi.checks.plan_service import plan_service as plan_service
from fusioninfer_pulumi.engines.argument_checks import (
    ARGUMENT_VALUE_INVALID as ARGUMENT_VALUE_INVALID,
)
from fusioninfer_pulumi.engines.command_flags import parse_integer as parse_integer
from fusioninfer_pulumi.engines.engine import (
    NIXL as NIXL,
    EngineCommand as EngineCommand,
    Parallelism as Parallelism,
)
from fusioninfer_pulumi.engines.engine_commands import (
    ENGINES as ENGINES,
    parse_command as parse_command,
)
from fusioninfer_pulumi.engines.engine_presets import PRESETS as PRESETS
from fusioninfer_pulumi.engines.model_arguments import is_gated as is_gated
from fusioninfer_pulumi.extras import install_command as install_command
from fusioninfer_pulumi.findings import (
    OUTPUT_HINT as OUTPUT_HINT,
    Finding as Finding,
    InvalidServiceError as InvalidServiceError,
    Location as Location,
    Rule as Rule,
    Severity as Severity,
    closest_name as closest_name,
    error as error,
    filter_errors as filter_errors,
    info as info,
    quote_value as quote_value,
    warning as warning,
)
from fusioninfer_pulumi.kube import labels as labels, quantity as quantity
from fusioninfer_pulumi.kube.client import (
    KubernetesApi as KubernetesApi,
    UnreadableError as UnreadableError,
)
from fusioninfer_pulumi.kube.pulumi_outputs import (
    UNKNOWN as UNKNOWN,
    is_output as is_output,
    output_paths as output_paths,
)
from fusioninfer_pulumi.kube.resource_requests import (
    count_accelerators as count_accelerators,
    is_accelerator as is_accelerator,
    is_schedulable as is_schedulable,
    pod_requests as pod_requests,
)
from fusioninfer_pulumi.loading import load as load, load_inventory as load_inventory
from fusioninfer_pulumi.loading.load import (
    InventorySource as InventorySource,
    file_text as file_text,
)
from fusioninfer_pulumi.loading.model_config import (
    ModelConfigError as ModelConfigError,
    model_config_finding as model_config_finding,
    read_model_config as read_model_config,
)
from fusioninfer_pulumi.loading.validate import validate_mapping as validate_mapping
from fusioninfer_pulumi.plan.service_plan import ServicePlan as ServicePlan
from fusioninfer_pulumi.pods.devices import build_claim_spec as build_claim_spec
from fusioninfer_pulumi.pods.pod import Pod as Pod
from fusioninfer_pulumi.presets.expansion import expand as expand
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME as DUPLICATE_NAME,
    FIELD_REQUIRED as FIELD_REQUIRED,
    OUTPUT_NOT_ALLOWED as OUTPUT_NOT_ALLOWED,
    WRONG_TYPE as WRONG_TYPE,
)
from fusioninfer_pulumi.topology.capacity_model import (
    GangScope as GangScope,
    NodePool as NodePool,
    RoleDemand as RoleDemand,
    compute_gang_capacity as compute_gang_capacity,
)
from fusioninfer_pulumi.topology.gang import (
    get_gang_minima as get_gang_minima,
    get_required_replicas as get_required_replicas,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan as RolePlan


def print_service(manifest: Mapping[str, Any], output: str) -> None:
    """Print a manifest as `yaml`, or as a Pulumi program (`python`)."""
    # Imported here, because memory checks print nothing.
    from fusioninfer_pulumi.cli.printing import print_objects  # noqa: PLC0415  # see above
    from fusioninfer_pulumi.cli.python_program import python_program  # noqa: PLC0415  # see above

    if output == "yaml":
        print_objects([dict(manifest)], "yaml")
    else:
        sys.stdout.write(python_program(load(manifest)))


def print_text(renderables: Iterable[Any]) -> None:
    """Print lines, and tables of `rich`, to standard output."""
    from fusioninfer_pulumi.cli.terminal import open_console  # noqa: PLC0415  # see above

    with open_console(sys.stdout) as screen:
        for renderable in renderables:
            screen.print(renderable)
