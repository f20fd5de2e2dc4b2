"""The public names, exactly; programs depend on them."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from importlib import resources

import pytest

import fusioninfer_pulumi

NAMES = [
    "AutoscalingArgs",
    "AutoscalingEngine",
    "AutoscalingMetricArgs",
    "ComponentType",
    "DeviceArgs",
    "DeviceRequirementArgs",
    "DisruptionBudgetArgs",
    "EndpointPickerArgs",
    "FailureMode",
    "Finding",
    "GangMode",
    "GangPolicyArgs",
    "Gateway",
    "GatewayArgs",
    "GatewayRefArgs",
    "HTTPRoute",
    "HttpRouteArgs",
    "InferencePool",
    "InferenceService",
    "InferenceServiceArgs",
    "InvalidServiceError",
    "InventoryArgs",
    "KvCacheOffloadingArgs",
    "KvEventsArgs",
    "KvRole",
    "KvTransferArgs",
    "Launcher",
    "LeaderWorkerSet",
    "MetricSource",
    "MetricsMode",
    "MonitoringArgs",
    "MultinodeArgs",
    "NetworkConfigArgs",
    "NetworkPolicyArgs",
    "NodePoolArgs",
    "PickerTlsArgs",
    "Placement",
    "PodGroup",
    "PoolArgs",
    "PrefillDecodeRatioArgs",
    "RestartPolicy",
    "RoleArgs",
    "RoleOrder",
    "RolePlacementArgs",
    "RoleRolloutArgs",
    "RolloutArgs",
    "RolloutStrategy",
    "SchedulingStrategyArgs",
    "ServicePlacementArgs",
    "ServicePlan",
    "ServingPrerequisites",
    "ServingPrerequisitesArgs",
    "Severity",
    "SidecarArgs",
    "SidecarConnector",
    "StartupArgs",
    "StartupPolicy",
    "Strategy",
    "SubGroupPolicyArgs",
    "SubGroupPolicyType",
    "SubdomainPolicy",
    "TaintArgs",
    "TaintEffect",
    "TokenSecretArgs",
    "TopologySpreadArgs",
    "TracingArgs",
    "UnhealthyPods",
    "WaitArgs",
    "WaitLevel",
    "WhenUnsatisfiable",
    "load",
    "load_inventory",
    "loads",
    "place",
    "plan_service",
    "plan_services",
    "read_inventory",
    "read_placement",
    "render",
]


def test_the_names_are_exactly_these() -> None:
    assert fusioninfer_pulumi.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_can_be_imported_and_explains_itself(name: str) -> None:
    value = getattr(fusioninfer_pulumi, name)
    assert value.__name__ == name
    assert value.__doc__
    assert value.__module__.startswith("fusioninfer_pulumi.")
    assert name in dir(fusioninfer_pulumi)


def test_a_star_import_gives_the_names() -> None:
    held: dict[str, object] = {}
    exec("from fusioninfer_pulumi import *", held)
    assert set(NAMES) <= set(held)


def test_an_unknown_name_is_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fusioninfer_pulumi.nothing  # noqa: B018 - to read it is what is tested


def test_the_package_is_typed_and_of_the_distributions_version() -> None:
    assert resources.files("fusioninfer_pulumi").joinpath("py.typed").is_file()
    assert fusioninfer_pulumi.__version__ == importlib.metadata.version("fusioninfer-pulumi")


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, fusioninfer_pulumi\n"
        "assert not {'pulumi', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "fusioninfer_pulumi.RoleArgs\n"
        "assert 'pulumi' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
