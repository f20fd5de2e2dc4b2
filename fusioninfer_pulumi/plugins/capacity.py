"""Names of the core for capacity packages. docs/capacity.md explains how to write one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.api.engine import EngineArgs
from fusioninfer_pulumi.api.inventory import (
    InventoryArgs,
    NodePoolArgs,
    ServicePlacementArgs,
    TaintArgs,
    TaintEffect,
)
from fusioninfer_pulumi.api.model import ModelArgs, hub_name, parse_model_uri
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.capacity_package import MEMORY_NOT_CHECKED, CapacityPackage
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.engines.argument_checks import ARGUMENT_VALUE_INVALID
from fusioninfer_pulumi.engines.command_flags import integer
from fusioninfer_pulumi.engines.engine import NIXL, EngineCommand, Parallelism
from fusioninfer_pulumi.engines.engine_commands import ENGINES, read_command
from fusioninfer_pulumi.engines.engine_presets import PRESETS
from fusioninfer_pulumi.engines.model_arguments import is_gated
from fusioninfer_pulumi.extras import install_command
from fusioninfer_pulumi.findings import (
    OUTPUT_HINT,
    Finding,
    InvalidServiceError,
    Location,
    Rule,
    Severity,
    closest_name,
    error,
    errors,
    info,
    show,
    warning,
)
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output, output_paths
from fusioninfer_pulumi.kube.resource_requests import (
    accelerators,
    is_accelerator,
    is_schedulable,
    pod_requests,
)
from fusioninfer_pulumi.loading import load, load_inventory
from fusioninfer_pulumi.loading.load import Inventory, file_text
from fusioninfer_pulumi.loading.model_config import (
    ModelConfigError,
    model_config_finding,
    read_model_config,
)
from fusioninfer_pulumi.loading.validate import validate_mapping
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.devices import claim_requests, claim_template
from fusioninfer_pulumi.pods.pod import Pod
from fusioninfer_pulumi.presets.expansion import expand
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    OUTPUT_NOT_ALLOWED,
    WRONG_TYPE,
)
from fusioninfer_pulumi.topology.capacity_model import GangForm, NodePool, RoleDemand, capacity
from fusioninfer_pulumi.topology.gang import get_gang_minima, get_required_replicas
from fusioninfer_pulumi.topology.role_plan import RolePlan

__all__ = [
    "ARGUMENT_VALUE_INVALID",
    "DUPLICATE_NAME",
    "ENGINES",
    "FIELD_REQUIRED",
    "MEMORY_NOT_CHECKED",
    "NIXL",
    "OUTPUT_HINT",
    "OUTPUT_NOT_ALLOWED",
    "PRESETS",
    "UNKNOWN",
    "WRONG_TYPE",
    "CapacityPackage",
    "EngineArgs",
    "EngineCommand",
    "Finding",
    "GangForm",
    "InferenceServiceArgs",
    "InvalidServiceError",
    "Inventory",
    "InventoryArgs",
    "KubernetesApi",
    "Location",
    "ModelArgs",
    "ModelConfigError",
    "NodePool",
    "NodePoolArgs",
    "Parallelism",
    "Pod",
    "RoleArgs",
    "RoleDemand",
    "RolePlan",
    "Rule",
    "ServicePlacementArgs",
    "ServicePlan",
    "Severity",
    "TaintArgs",
    "TaintEffect",
    "UnreadableError",
    "accelerators",
    "capacity",
    "claim_requests",
    "claim_template",
    "closest_name",
    "error",
    "errors",
    "expand",
    "file_text",
    "get_gang_minima",
    "get_required_replicas",
    "hub_name",
    "info",
    "install_command",
    "integer",
    "is_accelerator",
    "is_gated",
    "is_output",
    "is_schedulable",
    "labels",
    "load",
    "load_inventory",
    "model_config_finding",
    "output_paths",
    "parse_model_uri",
    "plan_service",
    "pod_requests",
    "quantity",
    "read_command",
    "read_model_config",
    "show",
    "validate_mapping",
    "warning",
]


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
