"""What the package `capacity` uses of the core. How to write another one: docs/capacity.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fusioninfer_pulumi.api.engine import EngineArgs
from fusioninfer_pulumi.api.inventory import InventoryArgs, NodePoolArgs, TaintArgs, TaintEffect
from fusioninfer_pulumi.api.model import ModelArgs, hub_name, read_source
from fusioninfer_pulumi.api.placement import ServicePlacementArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.capacity import MEMORY_NOT_CHECKED, CapacityPackage, Placed
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.engines.command import ENGINES, read_command
from fusioninfer_pulumi.engines.engine import NIXL, EngineCommand, Parallelism
from fusioninfer_pulumi.engines.flags import integer
from fusioninfer_pulumi.engines.preset import PRESETS
from fusioninfer_pulumi.engines.served_model import is_gated
from fusioninfer_pulumi.extras import install_command
from fusioninfer_pulumi.findings import (
    LIFT,
    Finding,
    InvalidServiceError,
    Location,
    Rule,
    Severity,
    error,
    errors,
    info,
    shown,
    similar,
    warning,
)
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output, output_paths
from fusioninfer_pulumi.kube.resources import accelerators, is_accelerator, pod_requests, takes_pods
from fusioninfer_pulumi.loading import load, load_inventory
from fusioninfer_pulumi.loading.load import Inventory, file_text
from fusioninfer_pulumi.loading.model_config import (
    ModelConfigError,
    model_config_finding,
    read_model_config,
)
from fusioninfer_pulumi.loading.validate import examine_mapping
from fusioninfer_pulumi.plan.service_plan import RoleMemory, ServicePlan
from fusioninfer_pulumi.pods.devices import claim_requests, claim_template
from fusioninfer_pulumi.pods.pod import Pod
from fusioninfer_pulumi.presets.expand import expand
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    OUTPUT_NOT_ALLOWED,
    WRONG_TYPE,
)
from fusioninfer_pulumi.topology.capacity import GangForm, NodePool, RoleDemand, capacity
from fusioninfer_pulumi.topology.gang import minima_of, required_replicas
from fusioninfer_pulumi.topology.role import RolePlan

__all__ = [
    "DUPLICATE_NAME",
    "ENGINES",
    "FIELD_REQUIRED",
    "LIFT",
    "MEMORY_NOT_CHECKED",
    "NIXL",
    "OUTPUT_NOT_ALLOWED",
    "PRESETS",
    "SHARED_MEMORY",
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
    "Placed",
    "Pod",
    "RoleArgs",
    "RoleDemand",
    "RoleMemory",
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
    "error",
    "errors",
    "examine_mapping",
    "expand",
    "file_text",
    "hub_name",
    "info",
    "install_command",
    "integer",
    "is_accelerator",
    "is_gated",
    "is_output",
    "labels",
    "load",
    "load_inventory",
    "minima_of",
    "model_config_finding",
    "output_paths",
    "plan_service",
    "pod_requests",
    "print_service",
    "print_text",
    "quantity",
    "read_command",
    "read_model_config",
    "read_source",
    "required_replicas",
    "shown",
    "similar",
    "takes_pods",
    "warning",
    "working",
]


def print_service(manifest: Mapping[str, Any], output: str) -> None:
    """Prints a manifest as `yaml`, or as a Pulumi program (`python`)."""
    # Imported here: a check of memory prints nothing.
    from fusioninfer_pulumi.cli.output import print_objects  # noqa: PLC0415  # see above
    from fusioninfer_pulumi.cli.python_program import python_program  # noqa: PLC0415  # see above

    if output == "yaml":
        print_objects([dict(manifest)], "yaml")
    else:
        sys.stdout.write(python_program(load(manifest)))


def print_text(parts: Iterable[Any]) -> None:
    """Prints lines and tables, as rich has them, to standard output."""
    # Imported here, as above.
    from fusioninfer_pulumi.cli.terminal import console  # noqa: PLC0415  # see above

    with console(sys.stdout) as screen:
        for part in parts:
            screen.print(part)


def working(text: str) -> AbstractContextManager[None]:
    """Shows on a terminal what takes its time."""
    from fusioninfer_pulumi.cli import output  # noqa: PLC0415  # as above

    return output.working(text)
