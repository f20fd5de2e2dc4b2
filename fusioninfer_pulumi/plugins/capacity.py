"""Names of the core for the package `capacity`. docs/capacity.md explains how to write another."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.api.engine import EngineArgs as EngineArgs
from fusioninfer_pulumi.api.inventory import InventoryArgs as InventoryArgs
from fusioninfer_pulumi.api.inventory import NodePoolArgs as NodePoolArgs
from fusioninfer_pulumi.api.inventory import ServicePlacementArgs as ServicePlacementArgs
from fusioninfer_pulumi.api.inventory import TaintArgs as TaintArgs
from fusioninfer_pulumi.api.inventory import TaintEffect as TaintEffect
from fusioninfer_pulumi.api.model import ModelArgs as ModelArgs
from fusioninfer_pulumi.api.model import hub_name as hub_name
from fusioninfer_pulumi.api.model import parse_model_uri as parse_model_uri
from fusioninfer_pulumi.api.role import RoleArgs as RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs as InferenceServiceArgs
from fusioninfer_pulumi.capacity_package import MEMORY_NOT_CHECKED as MEMORY_NOT_CHECKED
from fusioninfer_pulumi.capacity_package import CapacityPackage as CapacityPackage
from fusioninfer_pulumi.capacity_package import PlacementResult as PlacementResult
from fusioninfer_pulumi.checks.stages import plan_service as plan_service
from fusioninfer_pulumi.engines.command_flags import integer as integer
from fusioninfer_pulumi.engines.engine import ARGUMENT_VALUE_INVALID as ARGUMENT_VALUE_INVALID
from fusioninfer_pulumi.engines.engine import NIXL as NIXL
from fusioninfer_pulumi.engines.engine import EngineCommand as EngineCommand
from fusioninfer_pulumi.engines.engine import Parallelism as Parallelism
from fusioninfer_pulumi.engines.engine_commands import ENGINES as ENGINES
from fusioninfer_pulumi.engines.engine_commands import read_command as read_command
from fusioninfer_pulumi.engines.engine_presets import PRESETS as PRESETS
from fusioninfer_pulumi.engines.model_arguments import is_gated as is_gated
from fusioninfer_pulumi.extras import install_command as install_command
from fusioninfer_pulumi.findings import OUTPUT_HINT as OUTPUT_HINT
from fusioninfer_pulumi.findings import Finding as Finding
from fusioninfer_pulumi.findings import InvalidServiceError as InvalidServiceError
from fusioninfer_pulumi.findings import Location as Location
from fusioninfer_pulumi.findings import Rule as Rule
from fusioninfer_pulumi.findings import Severity as Severity
from fusioninfer_pulumi.findings import closest_name as closest_name
from fusioninfer_pulumi.findings import error as error
from fusioninfer_pulumi.findings import errors as errors
from fusioninfer_pulumi.findings import info as info
from fusioninfer_pulumi.findings import show as show
from fusioninfer_pulumi.findings import warning as warning
from fusioninfer_pulumi.kube import labels as labels
from fusioninfer_pulumi.kube import quantity as quantity
from fusioninfer_pulumi.kube.client import KubernetesApi as KubernetesApi
from fusioninfer_pulumi.kube.client import UnreadableError as UnreadableError
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN as UNKNOWN
from fusioninfer_pulumi.kube.pulumi_outputs import is_output as is_output
from fusioninfer_pulumi.kube.pulumi_outputs import output_paths as output_paths
from fusioninfer_pulumi.kube.resource_requests import accelerators as accelerators
from fusioninfer_pulumi.kube.resource_requests import is_accelerator as is_accelerator
from fusioninfer_pulumi.kube.resource_requests import pod_requests as pod_requests
from fusioninfer_pulumi.kube.resource_requests import takes_pods as takes_pods
from fusioninfer_pulumi.loading import load as load
from fusioninfer_pulumi.loading import load_inventory as load_inventory
from fusioninfer_pulumi.loading.load import Inventory as Inventory
from fusioninfer_pulumi.loading.load import file_text as file_text
from fusioninfer_pulumi.loading.model_config import ModelConfigError as ModelConfigError
from fusioninfer_pulumi.loading.model_config import model_config_finding as model_config_finding
from fusioninfer_pulumi.loading.model_config import read_model_config as read_model_config
from fusioninfer_pulumi.loading.validate import validate_mapping as validate_mapping
from fusioninfer_pulumi.plan.service_plan import ServicePlan as ServicePlan
from fusioninfer_pulumi.pods.devices import claim_requests as claim_requests
from fusioninfer_pulumi.pods.devices import claim_template as claim_template
from fusioninfer_pulumi.pods.pod import Pod as Pod
from fusioninfer_pulumi.presets.expansion import expand as expand
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME as DUPLICATE_NAME
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED as FIELD_REQUIRED
from fusioninfer_pulumi.rules.common import OUTPUT_NOT_ALLOWED as OUTPUT_NOT_ALLOWED
from fusioninfer_pulumi.rules.common import WRONG_TYPE as WRONG_TYPE
from fusioninfer_pulumi.topology.capacity_model import GangForm as GangForm
from fusioninfer_pulumi.topology.capacity_model import NodePool as NodePool
from fusioninfer_pulumi.topology.capacity_model import RoleDemand as RoleDemand
from fusioninfer_pulumi.topology.capacity_model import capacity as capacity
from fusioninfer_pulumi.topology.gang import gang_minima as gang_minima
from fusioninfer_pulumi.topology.gang import required_replicas as required_replicas
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


def print_text(parts: Iterable[Any]) -> None:
    """Print lines and tables of rich to standard output."""
    from fusioninfer_pulumi.cli.terminal import console  # noqa: PLC0415  # see above

    with console(sys.stdout) as screen:
        for part in parts:
            screen.print(part)
