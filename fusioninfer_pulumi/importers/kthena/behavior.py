"""How fast Kthena scales, as the `behavior` of a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.kthena.scaling_models import (
    Behavior,
    PolicySpec,
    SelectPolicy,
    StablePolicy,
)
from fusioninfer_pulumi.kube.durations import seconds

#: That of Kubernetes, and of Kthena's definition.
_TOLERANCE = 10
# Bounds of autoscaling/v2.
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
# pkg/autoscaler/webhook/autoscalingpolicy_mutator.go: what is left out as a whole; and the
# definition's own defaults for fields of what is given.
_UP = StablePolicy.model_construct(instances=4, percent=100, period="1m", stabilization_window="0s")
_DOWN = StablePolicy.model_construct(
    instances=0, percent=100, period="1m", stabilization_window="5m"
)
_INSTANCES, _PERCENT, _PERIOD = 1, 100, "15s"


def behavior_of(book: Book, spec: PolicySpec, at: At) -> dict[str, Any]:
    """Turns the pace of a policy into ours, and says what has no counterpart.

    Args:
        book: The book of the documents.
        spec: The policy.
        at: Its spec.
    """
    given = spec.behavior or Behavior()
    up, where = given.scale_up, at / "behavior" / "scaleUp"
    stable = (up.stable_policy if up is not None else None) or _UP
    built = {
        "scaleUp": _pace(book, stable, where / "stablePolicy", _UP),
        "scaleDown": _pace(book, given.scale_down or _DOWN, at / "behavior" / "scaleDown", _DOWN),
    }
    book.read(at / "behavior")
    panic = up.panic_policy if up is not None else None
    if panic is not None and panic.percent == 0:
        book.note(where / "panicPolicy", "adds no instance (percent: 0); left out")
    elif panic is not None:
        book.lost(
            where / "panicPolicy",
            "Kubernetes' autoscaler has no other pace in a rush; give stablePolicy the percent and "
            "period that a rush needs: a larger pace is used only where the metrics ask for it",
        )
    book.read(at / "tolerancePercent")
    if spec.tolerance_percent not in (None, _TOLERANCE):
        book.warn(
            at / "tolerancePercent",
            f"{spec.tolerance_percent} needs Kubernetes 1.35, or the feature gate "
            f"HPAConfigurableTolerance of 1.33: others know {_TOLERANCE} alone",
        )
        for direction in built.values():
            direction["tolerance"] = f"{10 * (spec.tolerance_percent or 0)}m"
    return built


def _pace(book: Book, given: StablePolicy, at: At, default: StablePolicy) -> dict[str, Any]:
    window = given.stabilization_window or default.stabilization_window or ""
    period = _whole(book, given.period or _PERIOD, at / "period", 1, _LONGEST_PERIOD)
    amounts = (
        ("Pods", _INSTANCES if given.instances is None else given.instances),
        ("Percent", _PERCENT if given.percent is None else given.percent),
    )
    both = given.select_policy is SelectPolicy.AND
    built: dict[str, Any] = {
        "stabilizationWindowSeconds": _whole(
            book, window, at / "stabilizationWindow", 0, _LONGEST_WINDOW
        )
    }
    policies = [
        {"type": kind, "value": value, "periodSeconds": period} for kind, value in amounts if value
    ]
    # Kubernetes takes no limit of 0: with And it forbids every change, with Or it adds nothing.
    if not policies or (both and len(policies) < len(amounts)):
        book.note(at, "allows no change (selectPolicy: Disabled)")
        return {**built, "selectPolicy": "Disabled"}
    return {**built, "policies": policies, "selectPolicy": "Min" if both else "Max"}


def _whole(book: Book, text: str, at: At, least: int, most: int) -> int:
    """A duration in whole seconds within bounds."""
    length = seconds(text)
    if length is None:
        book.refuse(at, f"must be a duration such as 30s, got {text}")
        return least
    if length.denominator != 1 or not least <= length <= most:
        book.lost(at, f"must be {least} to {most} whole seconds, got {text}")
        return min(max(round(length), least), most)
    return int(length)
