"""One manifest document: validated, or with all its problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND, InventoryArgs, InventoryManifest
from fusioninfer_pulumi.api.messages import findings_of
from fusioninfer_pulumi.api.service import (
    API_VERSION,
    KIND,
    InferenceServiceArgs,
    InferenceServiceManifest,
    ServiceMetadata,
    excessive_roles,
    service_findings,
)
from fusioninfer_pulumi.findings import Finding, error, errors, parse_path, shown

_ROUNDS = 4
_PLACEHOLDERS = {"componentType": "worker", "nodeCount": 1}
# What other rules compare: a finding that rests on a provisional value of these is no finding.
_STRUCTURE = {"name", "componentType", "component_type", "replicas", "multinode", "parallelism"}
_ROLE = re.compile(r"roles\[(\d+)\]\.?(\w+)?(\.(?:spec|metadata)\b)?")
_MINIMA = "schedulingStrategy.gangPolicy.minRoleReplicas"


@dataclass(frozen=True)
class Document:
    """One document of an input.

    Attributes:
        label: Where it came from, as messages name it: `FILE`, `FILE#2`, `<stdin>`.
        args: The service, None when the document was refused.
        findings: Problems of the document.
        provisional: What remains of a refused document, None when nothing useful does.
        doubtful: Fields of each role (by index) that had to be guessed in `provisional`.
    """

    label: str
    args: InferenceServiceArgs | None
    findings: tuple[Finding, ...] = ()
    provisional: InferenceServiceArgs | None = None
    doubtful: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def believes(self, finding: Finding) -> bool:
        """Tells whether a finding about `provisional` holds for what the user wrote."""
        match = _ROLE.match(finding.path)
        if match is not None:
            guessed = self.doubtful.get(int(match[1]), frozenset())
            if match[2] == "name":
                return "name" not in guessed
            # Inside a pod template nothing depends on counts or on the component type.
            return not guessed or match[3] is not None
        if finding.path.startswith(_MINIMA) and self.provisional is not None:
            named = finding.path[len(_MINIMA) :].strip(".[]")
            indexes = [i for i, role in enumerate(self.provisional.roles) if role.name == named]
            if indexes:
                return not any(index in self.doubtful for index in indexes)
            return not any("name" in guessed for guessed in self.doubtful.values())
        return not self.doubtful


def examine(raw: Any, label: str) -> Document:
    """Validates one document.

    Args:
        raw: The parsed document.
        label: Where it came from.

    Returns:
        The document, refused or not.
    """
    if not isinstance(raw, Mapping):
        return _refused(label, [error("", f"must be a mapping, got {shown(raw)}")])
    envelope = _envelope(raw)
    if envelope:
        return _refused(label, envelope)
    try:
        manifest = InferenceServiceManifest.model_validate(raw)
    except ValidationError as problem:
        findings = findings_of(problem, InferenceServiceManifest)
        provisional, doubtful = _salvage(raw, problem)
        if provisional is None:
            return _refused(label, findings)
        rules = _rule_findings(provisional)
        provisional, doubtful = _bounded(provisional, doubtful)
        document = Document(label, None, (), provisional, doubtful)
        found = {finding.path for finding in findings}
        findings += [rule for rule in rules if rule.path not in found and document.believes(rule)]
        return Document(label, None, tuple(findings), provisional, doubtful)
    args = _args(manifest)
    findings = _rule_findings(args)
    if not errors(findings):
        return Document(label, args, tuple(findings), args)
    provisional, doubtful = _bounded(args, {})
    return Document(label, None, tuple(findings), provisional, doubtful)


def _envelope(raw: Mapping[Any, Any]) -> list[Finding]:
    """What is wrong with apiVersion and kind: then nothing else of the document says anything."""
    found = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key not in raw:
            found.append(error(key, f"is required, must be {wanted}"))
        elif raw[key] != wanted:
            found.append(error(key, f"must be {wanted}, got {shown(raw[key])}"))
    return found


def _refused(label: str, findings: Sequence[Finding]) -> Document:
    return Document(label, None, tuple(findings))


def _args(manifest: InferenceServiceManifest) -> InferenceServiceArgs:
    blocks = (manifest.metadata, manifest.spec)
    values = {name: getattr(block, name) for block in blocks for name in block.model_fields_set}
    # Validated already, as parts of the manifest; the caller asks the rules by itself.
    return InferenceServiceArgs.model_construct(**values)


def _rule_findings(args: InferenceServiceArgs) -> list[Finding]:
    return list(service_findings(args))


def _salvage(
    raw: Mapping[str, Any], problem: ValidationError
) -> tuple[InferenceServiceArgs | None, dict[int, frozenset[str]]]:
    """Leaves out what was refused until the rest validates."""
    rest: Any = _copied(raw)
    doubtful: dict[int, frozenset[str]] = {}
    for _ in range(_ROUNDS):
        for item in problem.errors(include_url=False, include_input=False):
            location = item["loc"]
            if len(location) > 2 and location[:2] == ("spec", "roles"):
                index, guessed = location[2], set(map(str, location[3:4])) or _STRUCTURE
                if isinstance(index, int) and guessed & _STRUCTURE:
                    doubtful[index] = doubtful.get(index, frozenset()) | guessed
            _leave_out(rest, location, missing=item["type"] == "missing")
        try:
            return _args(InferenceServiceManifest.model_validate(rest)), doubtful
        except ValidationError as again:
            problem = again
    return None, doubtful


def _bounded(
    args: InferenceServiceArgs, doubtful: dict[int, frozenset[str]]
) -> tuple[InferenceServiceArgs, dict[int, frozenset[str]]]:
    """Leaves a role without replicas that has too many of them: planning them takes minutes."""
    excessive = excessive_roles(args.roles, args.groups)
    if not excessive:
        return args, doubtful
    roles = [
        role.model_copy(update={"replicas": 0}) if index in excessive else role
        for index, role in enumerate(args.roles)
    ]
    guessed = {index: doubtful.get(index, frozenset()) | {"replicas"} for index in excessive}
    return args.model_copy(update={"roles": roles}), {**doubtful, **guessed}


def _copied(value: Any) -> Any:
    """Copies the structure that is about to be changed; its leaves, such as Outputs, stay."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _leave_out(rest: Any, location: Sequence[str | int], *, missing: bool) -> None:
    *parents, last = [part for part in location if part != "[key]"] or [""]
    holder = rest
    for part in parents:
        try:
            holder = holder[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(holder, list) and isinstance(last, int):
        if parents[-1] == "roles":
            holder[last] = {"name": f"role-{last}", "componentType": "worker"}
        else:
            # Without one of its items a list says something else.
            _leave_out(rest, parents, missing=False)
    elif isinstance(holder, dict):
        if last == "name":
            holder["name"] = f"unnamed-{location[2]}" if len(location) > 3 else "unnamed"
        elif last in _PLACEHOLDERS:
            holder[last] = _PLACEHOLDERS[str(last)]
        elif not missing:
            holder.pop(last, None)


def examine_mapping(given: Mapping[str, Any], name: str) -> Document:
    """Validates a mapping of the shape of `InferenceServiceArgs`, flat or like a manifest.

    Args:
        given: The mapping.
        name: Name of the service where the mapping states none.

    Returns:
        The document; its findings name the fields as they stand in the mapping.
    """
    raw: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    flat = "spec" not in given
    if flat:
        own = {key: value for key, value in given.items() if key in ServiceMetadata.model_fields}
        raw["metadata"] = {"name": name, **own}
        raw["spec"] = {key: value for key, value in given.items() if key not in own}
    else:
        raw.update(given)
        metadata = raw.get("metadata")
        if metadata is None or isinstance(metadata, Mapping):
            raw["metadata"] = {"name": name, **(metadata or {})}
    document = examine(raw, name)
    if not flat:
        return document
    plain = tuple(
        replace(finding, location=parse_path(finding.path.removeprefix("metadata.")))
        for finding in document.findings
    )
    return replace(document, findings=plain)


def examine_inventory(raw: Any) -> tuple[InventoryArgs | None, list[Finding]]:
    """Validates an inventory.

    Args:
        raw: A `NodePoolInventory`, its fields alone, or a list of pools alone.

    Returns:
        The inventory, None when it was refused, and why.
    """
    if isinstance(raw, (list, tuple)):
        raw = {"pools": list(raw)}
    if not isinstance(raw, Mapping):
        return None, [error("", f"must be a mapping, got {shown(raw)}")]
    manifest = any(key in raw for key in ("kind", "apiVersion", "spec"))
    if manifest:
        wrong = [
            error(key, f"must be {wanted}, got {shown(raw.get(key))}")
            for key, wanted in (("apiVersion", API_VERSION), ("kind", INVENTORY_KIND))
            if raw.get(key) != wanted
        ]
        if wrong:
            return None, wrong
    model = InventoryManifest if manifest else InventoryArgs
    try:
        read = model.model_validate(raw)
    except ValidationError as problem:
        return None, findings_of(problem, model)
    return (read.spec if isinstance(read, InventoryManifest) else read), []
