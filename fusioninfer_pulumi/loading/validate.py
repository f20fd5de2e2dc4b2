"""Validation of one document, and of what is left of a refused one.

All errors of a document are reported together, also those that only its plan shows. A refused field
is left out, or replaced by a placeholder where a service cannot be without it. The rest is checked,
and planned without the roles whose containers a refused field goes into. An error in the rest
counts unless a refused field may be its cause. Errors in a container always count; those elsewhere
in a pod template or a route, unless a field of the service's own was refused. Other errors of a
role count unless a field beside theirs was refused, or one that says how many pods a replica has,
or one of the service's own. All other errors count where nothing but metadata was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND, InventoryArgs, InventoryManifest
from fusioninfer_pulumi.api.messages import field_of, findings_of
from fusioninfer_pulumi.api.role import ROUTER_FIELDS, ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import (
    API_VERSION,
    KIND,
    InferenceServiceArgs,
    InferenceServiceManifest,
    ServiceMetadata,
    excessive_roles,
    service_findings,
)
from fusioninfer_pulumi.findings import Finding, Location, error, errors, shown
from fusioninfer_pulumi.loading.rules import WRONG_API_VERSION, WRONG_KIND
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, WRONG_TYPE

#: Objects of Kubernetes in a role: what is wrong inside of them depends on no field of the role.
_OBJECTS = {
    (field,)
    for field in ("template", "leaderTemplate", "workerTemplate", "httproute", "networkPolicy")
}
#: Short: no other name gets too long by it.
_NAME = "x"
#: Fields of a role that do not go into its containers; nor do those of routers.
_OUTSIDE_CONTAINERS = {
    (field,)
    for field in (
        "autoscaling",
        "disruptionBudget",
        "name",
        "networkConfig",
        "placement",
        "port",
        "replicas",
        "restartPolicy",
        "rollout",
        "startup",
        "startupPolicy",
        "subGroupPolicy",
        "topologySpread",
    )
}
_ROUTER_FIELDS = {(to_camel(field),) for field in ROUTER_FIELDS}
#: Fields of a role that say how many pods a replica has.
_SIZES = {("multinode",), ("parallelism",)}


@dataclass(frozen=True)
class Document:
    """One document of an input.

    Attributes:
        args: The service, None when the document was refused.
        findings: What is wrong with the document.
        rest: The service without the refused fields; None when the document was not refused, or
            when nothing is left that could be planned.
        refused: Locations of the refused fields.
        unplanned: Indexes of the roles in the rest whose containers a refused field goes into.
    """

    args: InferenceServiceArgs | None
    findings: tuple[Finding, ...] = ()
    rest: InferenceServiceArgs | None = None
    refused: frozenset[Location] = frozenset()
    unplanned: frozenset[int] = frozenset()

    def holds(self, finding: Finding) -> bool:
        """Whether no refused field can be the cause of an error in the rest."""
        at = _camel(finding.location)
        return not any(_may_cause(each, at) for each in self.refused)


def _may_cause(refused: Location, at: Location) -> bool:
    """Whether an error at a field may come from another field that was left out."""
    if _within(refused, at) or _within(at, refused):
        return True
    if at[:1] == ("roles",) and at[2:3] in _OBJECTS and len(at) > 4:
        # Scheduling is compared with the pods' metadata and scheduler, never with containers.
        return refused[0] not in ("metadata", "roles") and at[3:5] != ("spec", "containers")
    beside = _within(at, refused[:-1]) or _within(refused, at[:-1])
    if refused[0] == "metadata":
        return beside
    if refused[0] == at[0] == "roles":
        return refused[:2] == at[:2] and (beside or refused[2:3] in _SIZES)
    return True


def _within(location: Location, other: Location) -> bool:
    return location[: len(other)] == other


def examine(raw: Any) -> Document:
    """Validates one document, which is accepted or refused."""
    if not isinstance(raw, Mapping):
        return _refused([error(WRONG_TYPE, (), f"must be a mapping, got {shown(raw)}")])
    envelope = _envelope(raw, KIND)
    if envelope:
        return _refused(envelope)
    try:
        args = _args(InferenceServiceManifest.model_validate(raw))
    except ValidationError as problem:
        return _refused(findings_of(problem, InferenceServiceManifest), _rest(raw, problem))
    findings = list(service_findings(args))
    return _refused(findings, args) if errors(findings) else Document(args)


def _envelope(raw: Mapping[Any, Any], kind: str) -> list[Finding]:
    """What is wrong with apiVersion and kind: then the other fields mean nothing."""
    found = []
    for key, wanted, rule in (
        ("apiVersion", API_VERSION, WRONG_API_VERSION),
        ("kind", kind, WRONG_KIND),
    ):
        if key not in raw:
            found.append(error(FIELD_REQUIRED, (key,), f"is required, must be {wanted}"))
        elif raw[key] != wanted:
            found.append(error(rule, (key,), f"must be {wanted}, got {shown(raw[key])}"))
    return found


def _refused(findings: Sequence[Finding], rest: InferenceServiceArgs | None = None) -> Document:
    """A refused document, with the errors of the rest of it beside its own."""
    document = Document(None, tuple(findings), rest, _locations(findings))
    if rest is None:
        return document
    of_rest = list(service_findings(rest))
    held = [each for each in of_rest if document.holds(each)]
    excessive = excessive_roles(rest.roles, rest.groups)
    # Planning all replicas of such a role would take minutes.
    roles = [
        role.model_copy(update={"replicas": 1}) if index in excessive else role
        for index, role in enumerate(rest.roles)
    ]
    return Document(
        None,
        findings=(*findings, *held),
        rest=rest.model_copy(update={"roles": roles}),
        refused=document.refused | _locations(held),
        unplanned=_unplanned(roles, document.refused | _locations(of_rest)),
    )


def _unplanned(roles: Sequence[RoleArgs], wrong: frozenset[Location]) -> frozenset[int]:
    # By default all engines trace, and a container in every pod may download the model.
    if any(each[:1] in (("model",), ("tracing",)) for each in wrong):
        return frozenset(range(len(roles)))
    return frozenset(
        index
        for index, role in enumerate(roles)
        for each in wrong
        if each[:2] == ("roles", index) and not _outside_containers(role, each[2:3])
    )


def _outside_containers(role: RoleArgs, field: Location) -> bool:
    if field in _ROUTER_FIELDS:
        return role.component_type is not ComponentType.ROUTER
    return field in _OUTSIDE_CONTAINERS


def _locations(findings: Sequence[Finding]) -> frozenset[Location]:
    return frozenset(_camel(each.location) for each in findings)


def _camel(location: Location) -> Location:
    """A location in the spelling of manifests: Python programs may write snake_case."""
    return tuple(to_camel(part) if isinstance(part, str) else part for part in location)


def _args(manifest: InferenceServiceManifest) -> InferenceServiceArgs:
    blocks = (manifest.metadata, manifest.spec)
    values = {name: getattr(block, name) for block in blocks for name in block.model_fields_set}
    # The fields are valid, as parts of the manifest; the caller checks the rules between them.
    return InferenceServiceArgs.model_construct(**values)


def _rest(raw: Mapping[str, Any], problem: ValidationError) -> InferenceServiceArgs | None:
    """The service without the refused fields; None when no role is left, for example."""
    rest: Any = _copied(raw)
    while True:
        changed = [
            _leave_out(rest, field_of(each["loc"]), each["type"])
            for each in problem.errors(include_url=False, include_input=False)
        ]
        if not any(changed):
            return None
        try:
            return _args(InferenceServiceManifest.model_validate(rest))
        except ValidationError as again:
            problem = again


def _copied(value: Any) -> Any:
    """Copies the structure that is about to be changed; its leaves, such as Outputs, stay."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _leave_out(rest: Any, location: Location, kind: str = "") -> bool:
    """Removes a field, or what cannot be without it; False when there is nothing to remove.

    `kind` is pydantic's kind of error.
    """
    if not location:
        return False
    *parents, last = location
    holder = rest
    for part in parents:
        try:
            holder = holder[part]
        except (KeyError, IndexError, TypeError):
            return False
    # An unknown key `Name` stands for nothing that the service needs.
    placeholder = None if kind == "extra_forbidden" else _placeholder(location)
    if placeholder is not None:
        holder[last] = placeholder
        return True
    if kind == "missing" or not isinstance(holder, dict):
        # A mapping without a required field, or a list without an item, says something else.
        return _leave_out(rest, tuple(parents))
    if last not in holder:
        return False
    del holder[last]
    return True


def _placeholder(location: Location) -> Any:
    """What stands for a refused field that a service cannot be without; else None."""
    match _camel(location):
        case ("metadata",):
            return {"name": _NAME}
        case ("metadata", "name"):
            return _NAME
        case ("spec", "roles", int(index)):
            return {"name": f"{_NAME}{index}", "componentType": "worker"}
        case ("spec", "roles", int(index), "name"):
            return f"{_NAME}{index}"
        case ("spec", "roles", int(), "componentType"):
            return "worker"
    return None


def examine_mapping(mapping: Mapping[str, Any], name: str) -> Document:
    """Validates a mapping with the fields of `InferenceServiceArgs`, flat or as in a manifest.

    `name` is that of the service where the mapping has none. Findings name the mapping's fields.
    """
    raw: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    flat = "spec" not in mapping
    if flat:
        own = {key: value for key, value in mapping.items() if key in ServiceMetadata.model_fields}
        raw["metadata"] = {"name": name, **own}
        raw["spec"] = {key: value for key, value in mapping.items() if key not in own}
    else:
        raw.update(mapping)
        metadata = raw.get("metadata")
        if metadata is None or isinstance(metadata, Mapping):
            raw["metadata"] = {"name": name, **(metadata or {})}
    document = examine(raw)
    if not flat:
        return document
    found = (
        each.at(*each.location[1:]) if each.location[:1] == ("metadata",) else each
        for each in document.findings
    )
    return replace(document, findings=tuple(found))


def examine_inventory(raw: Any) -> tuple[InventoryArgs | None, list[Finding]]:
    """The inventory, None when it was refused, and why.

    It is a `NodePoolInventory`, its fields alone, or a list of pools alone.
    """
    if isinstance(raw, (list, tuple)):
        raw = {"pools": list(raw)}
    if not isinstance(raw, Mapping):
        return None, [error(WRONG_TYPE, (), f"must be a mapping, got {shown(raw)}")]
    manifest = any(key in raw for key in ("kind", "apiVersion", "spec"))
    if manifest and (wrong := _envelope(raw, INVENTORY_KIND)):
        return None, wrong
    model = InventoryManifest if manifest else InventoryArgs
    try:
        read = model.model_validate(raw)
    except ValidationError as problem:
        return None, findings_of(problem, model)
    return (read.spec if isinstance(read, InventoryManifest) else read), []
