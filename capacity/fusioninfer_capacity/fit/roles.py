"""The memory of a service's roles, by their models and accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_capacity.fit.accelerators import by_labels, by_memory, by_name
from fusioninfer_capacity.fit.architecture import UnknownArchitectureError
from fusioninfer_capacity.fit.engines import SIZED, Accelerator, Unclear
from fusioninfer_capacity.fit.findings import fit_findings
from fusioninfer_capacity.fit.lookup import model_architecture
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import shape_findings
from fusioninfer_pulumi.plugins.capacity import (
    ARGUMENT_VALUE_INVALID,
    MEMORY_NOT_CHECKED,
    Finding,
    InferenceServiceArgs,
    Location,
    ModelArgs,
    ModelConfigError,
    NodePoolArgs,
    Pod,
    RoleArgs,
    RolePlan,
    Rule,
    ServicePlan,
    error,
    info,
    model_config_finding,
    quantity,
    show,
    warning,
)

ACCELERATOR_NOT_KNOWN = Rule("accelerator-not-known")
ACCELERATOR_NOT_SELECTED = Rule("accelerator-not-selected")


def check_memory(
    plan: ServicePlan, args: InferenceServiceArgs
) -> tuple[Mapping[str, Fit], list[Finding]]:
    """Return the memory of each role with known accelerator, model and arguments, and findings.

    Roles without an accelerator are not checked.
    """
    memory: dict[str, Fit] = {}
    findings: list[Finding] = []
    for role in plan.roles:
        fitted, role_findings = _role(role, args.model)
        findings += role_findings
        if fitted is not None:
            memory[role.name] = fitted
    return memory, findings


def _role(role: RolePlan, model: ModelArgs | None) -> tuple[Fit | None, list[Finding]]:
    at, place = ("roles", role.position), role.pods.leader.command_path
    command = role.pods.command
    explicit = role.args.accelerator
    accelerator = _accelerator(role.args, role.pods.leader)
    findings: list[Finding] = []
    if accelerator is None and explicit is not None:
        message = f"{show(explicit)} is not known; give its memory, such as 80Gi"
        findings.append(warning(ACCELERATOR_NOT_KNOWN, (*at, "accelerator"), message))
    selected = by_labels(dict(_selected(role.pods.leader.template.get("spec") or {})))
    # Labels tell forms of one product apart, such as H100 and H100-NVL.
    if (
        explicit is not None
        and accelerator is not None
        and selected is not None
        and (not selected.name.startswith(accelerator.name))
    ):
        message = f"{show(explicit)} conflicts with the pods' node selector, which selects "
        message += f"{selected.name}; correct one of them"
        findings.append(warning(ACCELERATOR_NOT_SELECTED, (*at, "accelerator"), message))
    if command.engine is None:
        return None, findings
    try:
        architecture = model_architecture(model, command.model)
    except ModelConfigError as problem:
        return None, [*findings, model_config_finding(problem)]
    except UnknownArchitectureError as reason:
        return None, [*findings, *_unchecked(at, accelerator, str(reason))]
    variables = _variables(role.pods.leader.container)
    rejected = list(shape_findings(place, command, architecture, variables, role.nodes))
    findings += rejected
    if accelerator is None:
        return None, findings
    sized = SIZED.get(command.engine.name)
    rejects_bfloat16 = sized is not None and sized.rejects_bfloat16
    if rejects_bfloat16 and not accelerator.has_bfloat16 and command.value("--dtype") == "bfloat16":
        message = f"--dtype: {accelerator.name} does not compute in bfloat16; use float16"
        findings.append(error(ARGUMENT_VALUE_INVALID, place, message))
    try:
        fitted = fit(command, architecture, accelerator, role.nodes)
    except Unclear as reason:
        return None, [*findings, *([] if rejected else _unchecked(at, accelerator, str(reason)))]
    if fitted.doubt is None:
        fitted = replace(fitted, doubt=_sized_otherwise(command.engine.name, variables))
    findings += fit_findings(at, place, command, architecture, fitted, role.nodes)
    return fitted, findings


def _unchecked(at: Location, accelerator: Accelerator | None, reason: str) -> list[Finding]:
    """Report a skipped check if the role has an accelerator."""
    if accelerator is None:
        return []
    return [info(MEMORY_NOT_CHECKED, at, f"memory not checked: {reason}")]


#: Variables with which engines leave more for the cache than is computed here, their values, and
#: what they do: SGLang's is off by default (0.5.16 and later), vLLM's on (0.21.0 and later).
_SIZED_OTHERWISE: Mapping[str, tuple[str, Sequence[str], str]] = {
    "sglang": (
        "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING",
        ("true", "1", "yes", "y"),
        "sizes the cache after graphs are captured",
    ),
    "vllm": ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", ("0",), "keeps nothing free for graphs"),
}


def _sized_otherwise(engine: str, variables: Mapping[str, Any] | None) -> str | None:
    """Return why a container's variables make an estimate uncertain; None if they do not."""
    if engine not in _SIZED_OTHERWISE:
        return None
    name, values, effect = _SIZED_OTHERWISE[engine]
    value = str((variables or {}).get(name)).lower()
    return f"{name} {effect}" if value in values else None


def _variables(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the variables of a container; None where other objects have some of them."""
    if container.get("envFrom"):
        return None
    return {
        str(variable.get("name")): variable.get("value")
        for variable in _listed(container.get("env"))
        if isinstance(variable, Mapping)
    }


# Accelerators.


def _accelerator(role: RoleArgs, pod: Pod) -> Accelerator | None:
    """Return the accelerator of the role, else of its claims, else of its node selectors."""
    if role.accelerator is not None:
        return named_accelerator(role.accelerator)
    for claim in role.resource_claims or ():
        for text in claim.selectors or ():
            match = _PRODUCT.search(text)
            accelerator = by_name(match[2]) if match else None
            if accelerator is not None:
                return accelerator
    if _partitioned(pod.container):
        return None
    return by_labels(dict(_selected(pod.template.get("spec") or {})))


_PRODUCT = re.compile(r"""\.productName\s*==\s*(["'])([^"']+)\1""")


def named_accelerator(text: str) -> Accelerator | None:
    """Return the accelerator of a name or a memory, such as `H100` or `80Gi`; else None."""
    accelerator = by_name(text)
    if accelerator is not None:
        return accelerator
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[KMGT]i?", text) is None:
        return None
    return by_memory(text, int(quantity.parse(text)))


def _selected(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return labels that every node of the pods has: selectors, and required affinity of one value.

    What is an Output, or no selector at all, says nothing.
    """
    for key, value in _mapping(spec.get("nodeSelector")).items():
        if isinstance(value, str):
            yield str(key), value
    affinity = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    required = _mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = _listed(required.get("nodeSelectorTerms"))
    if len(terms) != 1:  # any of several
        return
    for expression in _listed(_mapping(terms[0]).get("matchExpressions")):
        asked = _mapping(expression)
        values = _listed(asked.get("values"))
        if asked.get("operator") == "In" and len(values) == 1 and isinstance(values[0], str):
            yield str(asked.get("key")), values[0]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _partitioned(container: Mapping[str, Any]) -> bool:
    """Return whether a container requests MIG devices or shared accelerators."""
    resources = _mapping(container.get("resources"))
    names = [*_mapping(resources.get("limits")), *_mapping(resources.get("requests"))]
    return any("/mig-" in str(name) or str(name).endswith(".shared") for name in names)


def pool_accelerator(pool: NodePoolArgs) -> str | None:
    """Return what to call the accelerators of a pool: a name of the table, else their memory."""
    accelerator = by_labels(pool.labels)
    for value in pool.device.attributes.values():
        accelerator = accelerator or by_name(value)
    if (
        accelerator is not None
        and accelerator.name == (by_name(accelerator.name) or accelerator).name
    ):
        return accelerator.name
    return pool.device.memory
