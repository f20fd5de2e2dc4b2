"""Validation of a document, and conversion of a service to a manifest.

Pydantic reports all fields that are invalid by themselves. Pod templates, roles and the model that
have no such field are still checked, so that one run reports most errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND, InventoryArgs, InventoryManifest
from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.pod_template import role_template_findings
from fusioninfer_pulumi.api.provenance import TEMPLATE_FIELDS
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import (
    API_VERSION,
    KIND,
    InferenceServiceArgs,
    InferenceServiceManifest,
)
from fusioninfer_pulumi.api.service_rules import role_findings, service_findings
from fusioninfer_pulumi.api.spec import ServiceMetadata
from fusioninfer_pulumi.api.spec_model import check_model
from fusioninfer_pulumi.api.validation_errors import drop_key_marker, pydantic_findings
from fusioninfer_pulumi.findings import Finding, Rule, error, filter_errors, quote_value
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, WRONG_TYPE

WRONG_KIND = Rule("wrong-kind")
NO_SERVICE = Rule("no-service")
EMPTY_INPUT = Rule("empty-input")
UNREADABLE_FILE = Rule("unreadable-file")

#: The service (None if the document is invalid) and the findings.
Validated = tuple[InferenceServiceArgs | None, list[Finding]]


def validate_document(raw: Any) -> Validated:
    """Validate the manifest of an InferenceService."""
    if not isinstance(raw, Mapping):
        return None, [error(WRONG_TYPE, (), f"must be a mapping, got {quote_value(raw)}")]
    findings = _check_kind(raw, KIND)
    if findings:
        return None, findings
    try:
        args = _build_args(InferenceServiceManifest.model_validate(raw))
    except ValidationError as exc:
        findings = pydantic_findings(exc, InferenceServiceManifest)
        return None, [*findings, *_find_other_errors(raw, exc)]
    # `args` has both the metadata and the spec.
    errors = filter_errors(service_findings(args, args))
    return (None, errors) if errors else (args, [])


def _find_other_errors(raw: Mapping[str, Any], problem: ValidationError) -> Iterator[Finding]:
    """Check the pod templates, roles and model in which pydantic found no error."""
    errors = problem.errors(include_url=False, include_input=False)
    # Without the leading `spec`, and no deeper than a field of a role: `roles`, index and field.
    invalid = {
        tuple(to_camel(part) if isinstance(part, str) else part for part in location[1:4])
        for location in (drop_key_marker(item["loc"]) for item in errors)
    }
    spec = raw.get("spec")
    if not isinstance(spec, Mapping):
        return
    roles, has_model = spec.get("roles"), spec.get("model") is not None
    for index, role in enumerate(roles if isinstance(roles, list) else ()):
        if not isinstance(role, Mapping):
            continue
        prefix = ("roles", index)
        if not any(location[:2] == prefix for location in invalid):
            args = RoleArgs.model_validate(role)
            yield from role_findings(prefix, args, has_model=has_model)
            yield from check_model(prefix, args)
            continue
        for key, template in role.items():
            field = to_camel(str(key))
            is_valid = isinstance(template, Mapping) and (*prefix, field) not in invalid
            if field in TEMPLATE_FIELDS and is_valid:
                location = (*prefix, key)
                yield from role_template_findings(location, template, None, has_model=has_model)
    model = spec.get("model")
    if isinstance(model, Mapping) and not any(location[:1] == ("model",) for location in invalid):
        yield from check_model(("model",), ModelArgs.model_validate(model))


def _check_kind(raw: Mapping[Any, Any], kind: str) -> list[Finding]:
    findings = []
    for key, expected in (("apiVersion", API_VERSION), ("kind", kind)):
        if key not in raw:
            findings.append(error(FIELD_REQUIRED, (key,), f"is required, must be {expected}"))
        elif raw[key] != expected:
            findings.append(
                error(WRONG_KIND, (key,), f"must be {expected}, got {quote_value(raw[key])}")
            )
    return findings


def _build_args(manifest: InferenceServiceManifest) -> InferenceServiceArgs:
    parts = (manifest.metadata, manifest.spec)
    values = {name: getattr(part, name) for part in parts for name in part.model_fields_set}
    # Without validation: the fields are valid, and the caller checks the rules between them.
    return InferenceServiceArgs.model_construct(**values)


def validate_mapping(mapping: Mapping[str, Any], name: str) -> Validated:
    """Validate a mapping with the fields of `InferenceServiceArgs`, flat or as in a manifest.

    `name` is the service's name if the mapping has none. Locations of findings in a flat mapping
    have no leading `metadata`.
    """
    raw: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    is_flat = "spec" not in mapping
    if is_flat:
        metadata_fields = {
            key: value for key, value in mapping.items() if key in ServiceMetadata.model_fields
        }
        raw["metadata"] = {"name": name, **metadata_fields}
        raw["spec"] = {key: value for key, value in mapping.items() if key not in metadata_fields}
    else:
        raw.update(mapping)
        metadata = raw.get("metadata")
        if metadata is None or isinstance(metadata, Mapping):
            raw["metadata"] = {"name": name, **(metadata or {})}
    args, findings = validate_document(raw)
    if is_flat:
        findings = [
            finding.with_location(*finding.location[1:])
            if finding.location[:1] == ("metadata",)
            else finding
            for finding in findings
        ]
    return args, findings


def validate_inventory(raw: Any) -> tuple[InventoryArgs | None, list[Finding]]:
    """Return the inventory, or None if it is invalid, and findings.

    `raw` is a `NodePoolInventory`, the `spec` of one, or a list of pools.
    """
    if isinstance(raw, (list, tuple)):
        raw = {"pools": list(raw)}
    if not isinstance(raw, Mapping):
        message = f"must be a mapping or a list of pools, got {quote_value(raw)}"
        return None, [error(WRONG_TYPE, (), message)]
    is_manifest = any(key in raw for key in ("kind", "apiVersion", "spec"))
    findings = _check_kind(raw, INVENTORY_KIND) if is_manifest else []
    if findings:
        return None, findings
    model = InventoryManifest if is_manifest else InventoryArgs
    try:
        validated = model.model_validate(raw)
    except ValidationError as exc:
        return None, pydantic_findings(exc, model)
    return (validated.spec if isinstance(validated, InventoryManifest) else validated), []


def to_manifest(args: InferenceServiceArgs) -> dict[str, Any]:
    """Return the manifest of a service with only the fields that the user set."""
    fields: dict[str, Any] = args.model_dump(mode="json", by_alias=True, exclude_unset=True)
    names = {field.alias or name for name, field in ServiceMetadata.model_fields.items()}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {key: value for key, value in fields.items() if key in names},
        "spec": {key: value for key, value in fields.items() if key not in names},
    }
