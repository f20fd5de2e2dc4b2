"""Rules about references from variables and files to fields, resources, ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.rules import INVALID_LABEL_KEY
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.rules import VOLUME_MISSING
from fusioninfer_pulumi.pods.validation._paths import local_path, no_backsteps
from fusioninfer_pulumi.pods.validation._values import (
    DNS_LABEL,
    KEY,
    OBJECT_NAME,
    QUALIFIED_NAME,
    VARIABLE,
    Check,
    between,
    each,
    exactly_one,
    fields,
    formatted,
    given,
    known,
    mappings,
    text,
)
from fusioninfer_pulumi.pods.validation.resources import parsed_amount
from fusioninfer_pulumi.rules.common import INVALID_FORMAT, UNKNOWN_VALUE

UNKNOWN_FIELD_PATH = Rule(
    "unknown-field-path",
    "error",
    "A `fieldPath` is one that pods have.",
    remedy="Use one that the message lists.",
    source="Kubernetes API validation",
)
UNKNOWN_RESOURCE_FIELD = Rule(
    "unknown-resource-field",
    "error",
    "A `resourceFieldRef` names a resource that pods can read.",
    remedy="Use one that the message lists.",
    source="Kubernetes API validation",
)
UNKNOWN_DIVISOR = Rule(
    "unknown-divisor",
    "error",
    "A divisor is one of the resource's.",
    remedy="Use one that the message lists.",
    source="Kubernetes API validation",
)
FILE_SOURCES_NOT_ONE = Rule(
    "file-sources-not-one",
    "error",
    "A file of a `downwardAPI` volume has one source.",
    remedy="Keep either `fieldRef` or `resourceFieldRef`.",
    source="Kubernetes API validation",
)
VARIABLE_SOURCES_NOT_ONE = Rule(
    "variable-sources-not-one",
    "error",
    "`valueFrom` of a variable has one source.",
    remedy="Keep one of its sources.",
    source="Kubernetes API validation",
)
VALUE_BESIDE_VALUE_FROM = Rule(
    "value-beside-value-from",
    "error",
    "A variable has a value or a source.",
    remedy="Remove one of them.",
    source="Kubernetes API validation",
)
ENV_SOURCES_NOT_ONE = Rule(
    "env-sources-not-one",
    "error",
    "An item of `envFrom` has one source.",
    remedy="Keep either `configMapRef` or `secretRef`.",
    source="Kubernetes API validation",
)
VOLUME_NOT_EMPTY_DIR = Rule(
    "volume-not-empty-dir",
    "error",
    "The volume that is named is an emptyDir.",
    remedy="Use an emptyDir.",
    source="Kubernetes API validation",
)

_OF_PODS = ("metadata.name", "metadata.namespace", "metadata.uid")
_IN_VARIABLES = (
    *_OF_PODS,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
#: The name that `spec.nodeName` once had.
_RENAMED = "spec.host"
_IN_FILES = (*_OF_PODS, "metadata.labels", "metadata.annotations")
_RESOURCES = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS = {
    suffix: f"1{suffix}"
    for suffix in ("", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
}


def _field(allowed: tuple[str, ...]) -> Check:
    def check(at: Location, reference: Mapping[str, Any]) -> Iterator[Finding]:
        here, path = (*at, "fieldPath"), text(reference.get("fieldPath"))
        if reference.get("apiVersion") not in (None, "", "v1") and not is_output(
            reference["apiVersion"]
        ):
            message = f"must be v1, got {shown(reference['apiVersion'])}"
            yield error(UNKNOWN_VALUE, (*at, "apiVersion"), message)
        elif path.endswith("']") and path.startswith(
            ("metadata.labels['", "metadata.annotations['")
        ):
            kind, _, key = path[:-2].partition("['")
            key = key.lower() if kind == "metadata.annotations" else key
            if not QUALIFIED_NAME.fits(key):
                message = f"{shown(key)} is no valid Kubernetes label or annotation key"
                yield error(INVALID_LABEL_KEY, here, message)
        elif path and path not in allowed and path != _RENAMED:
            message = f"must be one of {', '.join(allowed)}, got {shown(path)}"
            yield error(UNKNOWN_FIELD_PATH, here, message)

    return fields({}, check, required=("fieldPath",))


def _resource(*required: str) -> Check:
    def check(at: Location, reference: Mapping[str, Any]) -> Iterator[Finding]:
        name = text(reference.get("resource"))
        if name and name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
            message = f"must be one of {', '.join(_RESOURCES)}, got {shown(name)}"
            yield error(UNKNOWN_RESOURCE_FIELD, (*at, "resource"), message)
            return
        divisor = reference.get("divisor")
        amount = parsed_amount(divisor)
        if not name or amount is None or amount == 0:
            return
        allowed = ("1", "1m") if name.endswith(".cpu") else tuple(_DIVISORS.values())
        if amount not in {parsed_amount(each) for each in allowed}:
            message = f"must be one of {', '.join(allowed)}, got {shown(divisor)}"
            yield error(UNKNOWN_DIVISOR, (*at, "divisor"), message)

    return fields({}, check, required=("resource", *required))


#: A file of the downward API (`validateDownwardAPIVolumeFile`).
downward_file = fields(
    {
        "path": local_path,
        "mode": between(0, 0o777),
        "fieldRef": _field(_IN_FILES),
        "resourceFieldRef": _resource("containerName"),
    },
    exactly_one(FILE_SOURCES_NOT_ONE, "source", ("fieldRef", "resourceFieldRef")),
    required=("path",),
)

_KEY_REFERENCE = fields(
    {"name": formatted(OBJECT_NAME), "key": formatted(KEY)}, required=("name", "key")
)
_SOURCES: Mapping[str, Check] = {
    "fieldRef": _field(_IN_VARIABLES),
    "resourceFieldRef": _resource(),
    "configMapKeyRef": _KEY_REFERENCE,
    "secretKeyRef": _KEY_REFERENCE,
    "fileKeyRef": fields(
        {"key": formatted(VARIABLE), "volumeName": formatted(DNS_LABEL), "path": no_backsteps},
        required=("key", "volumeName", "path"),
    ),
}
_VALUE_FROM = fields(_SOURCES, exactly_one(VARIABLE_SOURCES_NOT_ONE, "source", tuple(_SOURCES)))


def _one_value(at: Location, variable: Mapping[str, Any]) -> Iterator[Finding]:
    source, value = variable.get("valueFrom"), variable.get("value")
    # An Output may turn out empty, which would be allowed.
    if source is not None and given(value) and not is_output(value):
        message = "excludes value; remove one of them"
        yield error(VALUE_BESIDE_VALUE_FROM, (*at, "valueFrom"), message)


def _prefixed_name(at: Location, value: Any) -> Iterator[Finding]:
    """The name of an object, which may end in a dash here (`NameIsDNSSubdomain` of a prefix)."""
    if isinstance(value, str) and value:
        masked = f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value
        if not OBJECT_NAME.fits(masked):
            yield error(INVALID_FORMAT, at, f"must be {OBJECT_NAME.kind}, got {shown(value)}")


_ENV_FROM_SOURCES = {
    key: fields({"name": _prefixed_name}, required=("name",))
    for key in ("configMapRef", "secretRef")
}
#: The `env` of a container.
env = each(
    fields({"name": formatted(VARIABLE), "valueFrom": _VALUE_FROM}, _one_value, required=("name",))
)
#: The `envFrom` of a container.
env_from = each(
    fields(
        {"prefix": formatted(VARIABLE), **_ENV_FROM_SOURCES},
        exactly_one(ENV_SOURCES_NOT_ONE, "source", tuple(_ENV_FROM_SOURCES)),
    )
)


def file_references(
    at: Location, container: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Checks that variables are read from files of an `emptyDir` of the pod."""
    for index, variable in mappings(container.get("env")):
        reference = known(known(variable.get("valueFrom")).get("fileKeyRef"))
        name = text(reference.get("volumeName"))
        if not name:
            continue
        here = (*at, "env", index, "valueFrom", "fileKeyRef", "volumeName")
        if name not in volumes:
            yield error(VOLUME_MISSING, here, f"the pod has no volume {shown(name)}")
        elif volumes[name].get("emptyDir") is None and len(volumes[name]) > 1:
            yield error(VOLUME_NOT_EMPTY_DIR, here, f"{shown(name)} must be an emptyDir")
