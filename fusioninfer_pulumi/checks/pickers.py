"""Checks of endpoint pickers: their configuration, flags and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.checks.model_rewrites import model_rewrite_findings
from fusioninfer_pulumi.endpoint_pickers.check import check_config
from fusioninfer_pulumi.endpoint_pickers.flags import (
    check_args,
)
from fusioninfer_pulumi.endpoint_pickers.images import family_of
from fusioninfer_pulumi.endpoint_pickers.intent import (
    group_pairing_findings,
)
from fusioninfer_pulumi.findings import Finding, Rule, error, info, warning
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.router import RouterParts
from fusioninfer_pulumi.rules.common import CLUSTER_MUST_HAVE, OUTPUT_NOT_ALLOWED

PICKER_METRICS_OFF = Rule(
    "picker-metrics-off",
    "info",
    "Somebody can read the picker's metrics.",
    remedy="Set `endpointPicker.metrics: Authenticated`.",
)
PICKER_METRICS_UNAUTHENTICATED = Rule(
    "picker-metrics-unauthenticated",
    "warning",
    "The picker's metrics are not open to everybody.",
    remedy="Set `endpointPicker.metrics: Authenticated`.",
)
STRATEGY_DEFAULTED = Rule(
    "strategy-defaulted",
    "info",
    "The strategy is stated.",
    remedy="Set `strategy` to choose another one.",
)

PICKER_STANDBY_NOT_READY = Rule(
    "picker-standby-not-ready",
    "info",
    "All pods of the picker become ready.",
    remedy="Nothing: one pod leads, the others stand by.",
)

#: A check of a router role and its planned endpoint picker.
Check = Callable[[RouterParts, EppPlan], Iterable[Finding]]


def _config(parts: RouterParts, epp: EppPlan) -> Iterator[Finding]:
    """A configuration that the user wrote."""
    if parts.intent.strategy is None:
        own_image = is_output(epp.image) or family_of(epp.image) is None
        for finding in check_config(epp.config, epp.family, own_image=own_image):
            yield finding.under(*parts.at, "endpointPickerConfig")


def _pairing(parts: RouterParts, _: EppPlan) -> Iterable[Finding]:
    """Pairs of prefill and decode within a serving group."""
    return group_pairing_findings(parts.at, parts.args, parts.intent, parts.groups)


def _arguments(parts: RouterParts, epp: EppPlan) -> Iterator[Finding]:
    """Flags that the user wrote."""
    for finding in check_args(epp.args.args or (), epp.family):
        yield finding.under(*parts.at, "endpointPicker", "args")


def _advice(parts: RouterParts, epp: EppPlan) -> Iterator[Finding]:
    """What users should know of the picker's metrics, replicas and strategy."""
    at, args, epp_args, family = parts.at, parts.args, epp.args, epp.family
    metrics = (*at, "endpointPicker", "metrics")
    if epp_args.metrics is MetricsMode.OFF:
        yield info(
            PICKER_METRICS_OFF,
            metrics,
            "Off: nobody reads the picker's metrics; Authenticated lets in who may get /metrics, "
            "and binds the picker to the ClusterRole system:auth-delegator",
        )
    elif epp_args.metrics is MetricsMode.UNAUTHENTICATED:
        yield warning(
            PICKER_METRICS_UNAUTHENTICATED,
            metrics,
            "everybody who reaches the picker reads its metrics; Authenticated asks first",
        )
    elif is_output(parts.namespace):
        yield error(
            OUTPUT_NOT_ALLOWED,
            metrics,
            "Authenticated needs a cluster-wide name, made of the namespace: that must be a plain "
            "value, got a pulumi Output",
        )
    if family.needs_inference_objective_crd:
        yield info(
            CLUSTER_MUST_HAVE,
            (*at, "endpointPicker", "image"),
            f"{family.name} starts only where the cluster has the kind InferenceObjective "
            "(inference.networking.x-k8s.io), which releases up to v1.5.0 install",
        )
    if epp_args.replicas > 1:
        yield info(
            PICKER_STANDBY_NOT_READY,
            (*at, "endpointPicker", "replicas"),
            "one pod leads, the others stand by and are never ready: pulumi up does not wait for "
            "the Deployment",
        )
    if args.strategy is None and args.endpoint_picker_config is None:
        yield info(
            STRATEGY_DEFAULTED,
            (*at, "strategy"),
            "is not given: chosen for the roles of the service, see the plan",
        )


CHECKS: tuple[Check, ...] = (_config, _pairing, _arguments, model_rewrite_findings, _advice)
