"""What is planned for a service's life after its creation: frozen records."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.autoscaling import AutoscalingArgs, AutoscalingEngine
from fusioninfer_pulumi.api.disruption_budget import UnhealthyPods
from fusioninfer_pulumi.api.monitoring import MonitoringArgs


@dataclass(frozen=True)
class BudgetPlan:
    """The PodDisruptionBudget of one role.

    Attributes:
        role: Name of the role.
        name: Name of the object.
        replicas: Replicas that evictions may take down at a time.
        min_available: Pods that have to stay healthy; None where an autoscaler changes their
            number, and so many as `replicas` may be missing.
        unhealthy_pods: Whether pods that are not ready may be evicted regardless.
    """

    role: str
    name: str
    replicas: int
    min_available: int | None
    unhealthy_pods: UnhealthyPods


@dataclass(frozen=True)
class EngineMonitor:
    """The PodMonitor of one role.

    Attributes:
        role: Name of the role.
        name: Name of the object.
        port_name: Name of the serving port in the pods, None where it has none.
        port: Number of the serving port.
        https: Whether the engine speaks TLS.
    """

    role: str
    name: str
    port_name: str | None
    port: int
    https: bool


@dataclass(frozen=True)
class MonitoringPlan:
    """The monitors of one service.

    Attributes:
        args: What the user asked for.
        engines: One for each role that runs.
        picker: Whether the endpoint picker has one.
        picker_token: Whether the picker asks its readers for a token.
    """

    args: MonitoringArgs
    engines: tuple[EngineMonitor, ...]
    picker: bool
    picker_token: bool


@dataclass(frozen=True)
class AutoscalerPlan:
    """The autoscaler of one set.

    Attributes:
        role: Name of the role.
        name: Name of the LeaderWorkerSet, and of the object.
        args: What the user asked for.
    """

    role: str
    name: str
    args: AutoscalingArgs

    @property
    def kind(self) -> str:
        """Kind of the object."""
        keda = self.args.engine is AutoscalingEngine.KEDA
        return "ScaledObject" if keda else "HorizontalPodAutoscaler"


@dataclass(frozen=True)
class DayTwoPlan:
    """Everything of a service that only matters once it runs.

    Attributes:
        budgets: Disruption budgets, one for each role that asks for it.
        monitoring: The monitors, None where none are asked for.
        autoscalers: One for each set that is scaled.
    """

    budgets: tuple[BudgetPlan, ...] = ()
    monitoring: MonitoringPlan | None = None
    autoscalers: tuple[AutoscalerPlan, ...] = ()
