"""Claims of devices, and the scheduler that allocates them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusioninfer_pulumi.api.topology import VOLCANO
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

VOLCANO_IGNORES_CLAIMS = Rule(
    "volcano-ignores-claims",
    "warning",
    "Volcano allocates the devices that pods claim.",
    remedy="Set `predicate.DynamicResourceAllocationEnable: true` for its plugin predicates.",
    source="Volcano 1.14.1",
)


def claim_findings(roles: Iterable[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warns of pods with claims that Volcano places: as it is installed, it ignores claims.

    Volcano 1.14.1, pkg/scheduler/plugins/predicates: the plugin for claims is off by default, and
    pods are bound without an allocation, which no kubelet starts (e2e/test_claims.py).
    """
    for ctx, pods in roles:
        if ctx.shape.scheduler != VOLCANO:
            return
        out = (
            "gangPolicy.mode to Off"
            if ctx.shape.needs_gang
            else "schedulerName to another scheduler"
        )
        by_hand = (
            (*pod.path, "spec", "resourceClaims")
            for pod in pods.written
            if pod.written["spec"].get("resourceClaims")
        )
        at = ctx.at("resourceClaims") if ctx.role.resource_claims else next(by_hand, None)
        if at is not None:
            yield warning(
                VOLCANO_IGNORES_CLAIMS,
                at,
                "Volcano binds such pods without the devices that they claim, and they never "
                "start, unless the arguments of its plugin predicates say "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); say "
                f"so there, or set schedulingStrategy.{out}",
            )
            return
