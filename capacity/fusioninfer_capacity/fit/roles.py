"""Checks the memory of a service's roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_capacity.fit.accelerators import (
    MEMORY_LABEL,
    find_by_labels,
    find_by_name,
    from_memory,
)
from fusioninfer_capacity.fit.architecture import UnknownArchitectureError
from fusioninfer_capacity.fit.engines import SIZED_ENGINES, Accelerator, UnknownMemoryError
from fusioninfer_capacity.fit.findings import check_fit
from fusioninfer_capacity.fit.lookup import find_model_architecture
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import check_shapes
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
    quote_value,
    warning,
)

ACCELERATOR_NOT_KNOWN = Rule("accelerator-not-known")
ACCELERATOR_NOT_SELECTED = Rule("accelerator-not-selected")


def check_memory(
    plan: ServicePlan, args: InferenceServiceArgs
) -> tuple[Mapping[str, Fit], list[Finding]]:
    """Return the memory of each role with known accelerator, model and arguments, and findings.

    Without an accelerator, only splits and sequence lengths are checked.
    """
    memory: dict[str, Fit] = {}
    findings: list[Finding] = []
    for role in plan.roles:
        fitted, role_findings = _check_role(role, args.model)
        findings += role_findings
        if fitted is not None:
            memory[role.name] = fitted
    return memory, findings


def _check_role(role: RolePlan, model: ModelArgs | None) -> tuple[Fit | None, list[Finding]]:
    role_path, command_path = ("roles", role.position), role.pods.leader.command_path
    command = role.pods.command
    explicit = role.args.accelerator
    accelerator = _find_accelerator(role.args, role.pods.leader)
    findings: list[Finding] = []
    if accelerator is None and explicit is not None:
        message = f"unknown accelerator {quote_value(explicit)}; set its memory, such as 80Gi"
        findings.append(warning(ACCELERATOR_NOT_KNOWN, (*role_path, "accelerator"), message))
    selected = find_by_labels(dict(_read_node_labels(role.pods.leader.template.get("spec") or {})))
    # Labels distinguish variants of a product, such as H100 and H100-NVL, but not A10 and A100.
    if (
        explicit is not None
        and accelerator is not None
        and selected is not None
        and not f"{selected.name}-".startswith(f"{accelerator.name}-")
    ):
        message = (
            f"{quote_value(explicit)} conflicts with the pods' node selector, which selects "
            f"{selected.name}; correct one of them"
        )
        findings.append(warning(ACCELERATOR_NOT_SELECTED, (*role_path, "accelerator"), message))
    if command.engine is None:
        return None, findings
    try:
        architecture = find_model_architecture(model, command.model)
    except ModelConfigError as exc:
        return None, [*findings, model_config_finding(exc)]
    except UnknownArchitectureError as exc:
        return None, [*findings, *_report_unchecked(role_path, accelerator, str(exc))]
    variables = _read_variables(role.pods.leader.container)
    shape_findings = list(check_shapes(command_path, command, architecture, variables, role.nodes))
    findings += shape_findings
    if accelerator is None:
        return None, findings
    sized = SIZED_ENGINES.get(command.engine.name)
    rejects_bfloat16 = sized is not None and sized.rejects_bfloat16
    if rejects_bfloat16 and not accelerator.has_bfloat16 and command.value("--dtype") == "bfloat16":
        message = f"--dtype: {accelerator.name} does not compute in bfloat16; use float16"
        findings.append(error(ARGUMENT_VALUE_INVALID, command_path, message))
    try:
        fitted = fit(command, architecture, accelerator, role.nodes)
    except UnknownMemoryError as exc:
        # Findings about the shape usually have the same cause.
        unchecked = [] if shape_findings else _report_unchecked(role_path, accelerator, str(exc))
        return None, [*findings, *unchecked]
    if fitted.doubt is None:
        fitted = replace(fitted, doubt=_explain_variables(command.engine.name, variables))
    findings += check_fit(role_path, command_path, command, architecture, fitted, role.nodes)
    return fitted, findings


def _report_unchecked(
    location: Location, accelerator: Accelerator | None, reason: str
) -> list[Finding]:
    """Report a skipped check if the role has an accelerator."""
    if accelerator is None:
        return []
    return [info(MEMORY_NOT_CHECKED, location, f"memory not checked: {reason}")]


#: Variables that make the cache larger than estimated: their values that do so, and the effect.
#: By default SGLang's is off (since 0.5.16) and vLLM's is on (since 0.21.0).
_CACHE_VARIABLES: Mapping[str, tuple[str, Sequence[str], str]] = {
    "sglang": (
        "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING",
        ("true", "1", "yes", "y"),
        "sizes the cache after graphs are captured",
    ),
    "vllm": ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", ("0",), "keeps nothing free for graphs"),
}


def _explain_variables(engine: str, variables: Mapping[str, Any] | None) -> str | None:
    """Return why a container's variables make an estimate uncertain; None if they do not."""
    if engine not in _CACHE_VARIABLES:
        return None
    name, values, effect = _CACHE_VARIABLES[engine]
    value = str((variables or {}).get(name)).lower()
    return f"{name} {effect}" if value in values else None


def _read_variables(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the variables of a container; None if `envFrom` adds unknown ones."""
    if container.get("envFrom"):
        return None
    return {
        str(variable.get("name")): variable.get("value")
        for variable in _as_list(container.get("env"))
        if isinstance(variable, Mapping)
    }


def _find_accelerator(role: RoleArgs, pod: Pod) -> Accelerator | None:
    """Return the accelerator of the role, else of its claims, else of its node selectors."""
    if role.accelerator is not None:
        return parse_accelerator(role.accelerator)
    for claim in role.resource_claims or ():
        for text in claim.selectors or ():
            match = _PRODUCT.search(text)
            accelerator = find_by_name(match[2]) if match else None
            if accelerator is not None:
                return accelerator
    if _is_partitioned(pod.container):
        return None
    return find_by_labels(dict(_read_node_labels(pod.template.get("spec") or {})))


_PRODUCT = re.compile(r"""\.productName\s*==\s*(["'])([^"']+)\1""")


def parse_accelerator(text: str) -> Accelerator | None:
    """Return the accelerator of a name or a memory, such as `H100` or `80Gi`; else None."""
    accelerator = find_by_name(text)
    if accelerator is not None:
        return accelerator
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[KMGT]i?", text) is None:
        return None
    return from_memory(text, int(quantity.parse(text)))


def _read_node_labels(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield labels that node selectors, or required node affinity with one value, ask for.

    Outputs and malformed selectors are ignored.
    """
    for key, value in _as_mapping(spec.get("nodeSelector")).items():
        if isinstance(value, str):
            yield str(key), value
    affinity = _as_mapping(_as_mapping(spec.get("affinity")).get("nodeAffinity"))
    required = _as_mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = _as_list(required.get("nodeSelectorTerms"))
    if len(terms) != 1:  # terms are alternatives
        return
    for expression in _as_list(_as_mapping(terms[0]).get("matchExpressions")):
        requirement = _as_mapping(expression)
        values = _as_list(requirement.get("values"))
        if requirement.get("operator") == "In" and len(values) == 1 and isinstance(values[0], str):
            yield str(requirement.get("key")), values[0]


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _is_partitioned(container: Mapping[str, Any]) -> bool:
    """Return whether a container requests MIG devices or shared accelerators."""
    resources = _as_mapping(container.get("resources"))
    names = [*_as_mapping(resources.get("limits")), *_as_mapping(resources.get("requests"))]
    return any("/mig-" in str(name) or str(name).endswith(".shared") for name in names)


def name_accelerator(pool: NodePoolArgs) -> str | None:
    """Return a text for `parse_accelerator`: the name of a pool's accelerators, or their memory."""
    accelerator = find_by_labels(pool.labels)
    for value in pool.device.attributes.values():
        accelerator = accelerator or find_by_name(value)
    if accelerator is None:
        return pool.device.memory
    if find_by_name(accelerator.name) is not None:
        return accelerator.name
    # The label has the memory of an accelerator that is not in the table.
    return pool.device.memory or f"{pool.labels[MEMORY_LABEL]}Mi"
