"""Checks of accelerators that pods request or claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fusioninfer_pulumi.api.service_shape import VOLCANO
from fusioninfer_pulumi.checks.pods.template import UNKNOWN_RESOURCE, is_known_form
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resource_requests import (
    is_accelerator,
    is_extended,
    suggest_accelerator,
)
from fusioninfer_pulumi.pods.multi_node import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

ACCELERATORS_NOT_REQUESTED = Rule("accelerators-not-requested")

ACCELERATORS_BESIDE_CLAIMS = Rule("accelerators-beside-claims")

#: Devices that no engine computes on.
_NETWORK = re.compile(r"rdma|roce|infiniband|sriov|mlx|mlnx|efa$|nic")
#: Images of engines for processors alone, and of programs that stand in for an engine.
_NO_ACCELERATOR = re.compile(r"(?<![a-z])(cpu|xeon|openvino|sim|simulator|mock|fake)(?![a-z])")
#: Variables that engines built for processors read.
_CPU_VARIABLES = re.compile(r"VLLM_CPU_\w+|SGLANG_USE_CPU_ENGINE|VLLM_TARGET_DEVICE")


def accelerator_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn of pods whose engine gets no accelerator, as far as the pods say."""
    for pod in pods.written:
        command = pod.user_command
        misspelled = list(_misspelled_resources(pod))
        # Names that the API server refuses are findings of the template.
        yield from (slip for slip in misspelled if is_known_form(str(slip.location[-1])))
        engine = pods.command.engine if pod.leads or ctx.launcher in WRAPPING else None
        engine = engine or command.engine
        if (
            engine is None
            or misspelled
            or _has_devices(pod)
            or _needs_none(pod, pods.command, command)
        ):
            continue
        requested = [f"{name}: {amount}" for name, amount in _amounts(pod) if is_accelerator(name)]
        asks = f"asks for {requested[0]}" if requested else "asks for none"
        yield warning(
            ACCELERATORS_NOT_REQUESTED,
            (*pod.container_path, "resources"),
            f"{engine.title} needs accelerators, and the container {asks}; add limits such as "
            "nvidia.com/gpu: 1, or --device cpu if the image is built for processors",
        )


def _amounts(pod: Pod) -> Iterator[tuple[str, Any]]:
    resources = pod.container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    yield from ((str(name), amount) for name, amount in asked.items())


def _has_devices(pod: Pod) -> bool:
    """Whether the serving container has a device: asked for, claimed, or all of the node's."""
    if (pod.container.get("resources") or {}).get("claims"):
        return True
    for name, amount in _amounts(pod):
        device = is_accelerator(name) or (is_extended(name) and not _NETWORK.search(name))
        if device and quantity.parse(amount) > 0:
            return True
    return (pod.container.get("securityContext") or {}).get("privileged") is True


def _needs_none(pod: Pod, command: EngineCommand, user_command: EngineCommand) -> bool:
    image = command.image if pod.leads else user_command.image
    built = image.name is None or _NO_ACCELERATOR.search(image.name.lower()) is not None
    named = any(
        _CPU_VARIABLES.fullmatch(str(variable.get("name")))
        for variable in pod.container.get("env") or ()
    )
    return built or named or command.value("--device") == "cpu"


def _misspelled_resources(pod: Pod) -> Iterator[Finding]:
    """Report misspelled names of accelerators."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(pod.written["spec"].get(field) or ()):
            at = (*pod.path, "spec", field, index, "resources")
            names: set[str] = set()
            for kind in ("limits", "requests"):
                for name in (container.get("resources") or {}).get(kind) or ():
                    meant = suggest_accelerator(str(name))
                    if meant is None or name in names:
                        continue
                    names.add(name)
                    # No other device has such a name in the plural.
                    plain = str(name).lower().removesuffix("s")
                    same = plain == meant.lower().removesuffix("s")
                    make_finding = error if same else warning
                    yield make_finding(
                        UNKNOWN_RESOURCE,
                        (*at, kind, str(name)),
                        f"unknown device, so no node has it; did you mean {meant}?",
                    )


def claim_and_limit_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Reject accelerators that a template asks for beside the role's claims."""
    if not any(claim.made for claim in ctx.role.resource_claims or ()):
        return
    for pod in pods.written:
        limits = (pod.container.get("resources") or {}).get("limits") or {}
        for resource in limits:
            if is_accelerator(str(resource)):
                yield error(
                    ACCELERATORS_BESIDE_CLAIMS,
                    (*pod.container_path, "resources", "limits", str(resource)),
                    "requests accelerators in addition to resourceClaims, so the pod would get "
                    "both; remove one of them",
                )


VOLCANO_IGNORES_CLAIMS = Rule("volcano-ignores-claims")


def claim_findings(roles: Iterable[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warn of pods with claims that Volcano places: as it is installed, it ignores claims.

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
                "Volcano binds these pods without the devices that they claim, so they never "
                "start, unless its predicates plugin has "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); set "
                f"it, or set schedulingStrategy.{out}",
            )
            return
