"""Rules about volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.rules import NEGATIVE_QUANTITY
from fusioninfer_pulumi.pods.validation._paths import descending, local_path, no_backsteps
from fusioninfer_pulumi.pods.validation._references import downward_file
from fusioninfer_pulumi.pods.validation._values import (
    CSI_DRIVER,
    DNS_LABEL,
    OBJECT_NAME,
    Check,
    between,
    each,
    exactly_one,
    fields,
    formatted,
    given,
    known,
    mappings,
    one_of,
    required_text,
    text,
)
from fusioninfer_pulumi.pods.validation.metadata import label_map, label_selector
from fusioninfer_pulumi.pods.validation.resources import parsed_amount
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE

PATH_NOT_ABSOLUTE = Rule(
    "path-not-absolute",
    "error",
    "The path of an NFS export is absolute.",
    remedy="Start it with `/`.",
    source="Kubernetes API validation",
)
ACCESS_MODES_EXCLUDE_EACH_OTHER = Rule(
    "access-modes-exclude-each-other",
    "error",
    "ReadWriteOncePod is the only access mode of a claim.",
    remedy="Remove the others.",
    source="Kubernetes API validation",
)
PROJECTED_SOURCES_SEVERAL = Rule(
    "projected-sources-several",
    "error",
    "An item of a projected volume's `sources` has one source.",
    remedy="Write one item for each source.",
    source="Kubernetes API validation",
)
PROJECTED_PATH_TWICE = Rule(
    "projected-path-twice",
    "error",
    "Files of a projected volume have different paths.",
    remedy="Change one of them.",
    source="Kubernetes API validation",
)
DISK_NAMES_NOT_ONE = Rule(
    "disk-names-not-one",
    "error",
    "A Fibre Channel volume is named in one way.",
    remedy="Keep either `targetWWNs` or `wwids`.",
    source="Kubernetes API validation",
)
VOLUME_SOURCES_SEVERAL = Rule(
    "volume-sources-several",
    "error",
    "A volume has one source.",
    remedy="Remove the others.",
    source="Kubernetes API validation",
)

_MODE = between(0, 0o777)


def _size_limit(at: Location, value: Any) -> Iterator[Finding]:
    amount = parsed_amount(value)
    if amount is not None and amount < 0:
        yield error(NEGATIVE_QUANTITY, at, f"must be at least 0, got {shown(value)}")


def _absolute(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(value, str) and value and not value.startswith("/"):
        yield error(PATH_NOT_ABSOLUTE, at, f"must be an absolute path, got {shown(value)}")


_ITEMS = each(fields({"path": local_path, "mode": _MODE}, required=("key", "path")))


def _access_modes(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    modes = spec.get("accessModes")
    here = (*at, "accessModes")
    if is_output(modes):
        return
    if not modes:
        yield error(FIELD_REQUIRED, here, "is required")
    elif isinstance(modes, list) and "ReadWriteOncePod" in modes and len(set(map(str, modes))) > 1:
        message = "ReadWriteOncePod stands alone; remove the other modes"
        yield error(ACCESS_MODES_EXCLUDE_EACH_OTHER, here, message)


def _storage(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    resources = spec.get("resources")
    requests = known(resources).get("requests")
    if is_output(resources) or is_output(requests):
        return
    here, size = (*at, "resources", "requests", "storage"), known(requests).get("storage")
    if size is None:
        yield error(FIELD_REQUIRED, here, "is required")
        return
    amount = parsed_amount(size)
    if amount is not None and amount <= 0:
        yield error(OUT_OF_RANGE, here, f"must be above 0, got {shown(size)}")


#: The spec of a claim (`ValidatePersistentVolumeClaimSpec`).
claim_spec = fields(
    {
        "accessModes": each(
            one_of("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
        ),
        "selector": label_selector,
        "storageClassName": formatted(OBJECT_NAME),
        "volumeMode": one_of("Block", "Filesystem"),
        "volumeAttributesClassName": formatted(OBJECT_NAME),
    },
    _access_modes,
    _storage,
)
_CLAIM_TEMPLATE = fields(
    {"metadata": fields({"labels": label_map}), "spec": claim_spec}, required=("spec",)
)

_TOKEN = fields({"expirationSeconds": between(600, 2**32), "path": local_path}, required=("path",))
_NAMED_ITEMS = fields({"items": _ITEMS}, required=("name",))
_PROJECTED_SOURCES: Mapping[str, Check] = {
    "secret": _NAMED_ITEMS,
    "configMap": _NAMED_ITEMS,
    "downwardAPI": fields({"items": each(downward_file)}),
    "serviceAccountToken": _TOKEN,
}
_PROJECTED_SOURCE = fields(
    _PROJECTED_SOURCES,
    exactly_one(PROJECTED_SOURCES_SEVERAL, "source", tuple(_PROJECTED_SOURCES), least=0),
)


def _projected_paths(at: Location, projected: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, source in mappings(projected.get("sources")):
        for place, path in _paths((*at, "sources", index), source):
            if path in seen:
                message = f"{shown(path)} is the path of two files; give them different paths"
                yield error(PROJECTED_PATH_TWICE, place, message)
            seen.add(path)


def _paths(at: Location, source: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    for kind in ("secret", "configMap", "downwardAPI"):
        for index, item in mappings(known(source.get(kind)).get("items")):
            if text(item.get("path")):
                yield (*at, kind, "items", index, "path"), text(item["path"])


def _unit_number(at: Location, channel: Mapping[str, Any]) -> Iterator[Finding]:
    if channel.get("targetWWNs") and channel.get("lun") is None:
        yield error(FIELD_REQUIRED, (*at, "lun"), "is required with targetWWNs")


#: Sources of core/v1 `VolumeSource` in Kubernetes 1.36.
SOURCES: Mapping[str, Check] = {
    "awsElasticBlockStore": fields({"partition": between(0, 255)}, required=("volumeID",)),
    "azureDisk": required_text("diskName", "diskURI"),
    "azureFile": required_text("secretName", "shareName"),
    "cephfs": required_text("monitors"),
    "cinder": required_text("volumeID"),
    "configMap": fields({"defaultMode": _MODE, "items": _ITEMS}, required=("name",)),
    "csi": fields(
        {
            "driver": formatted(CSI_DRIVER),
            "nodePublishSecretRef": fields({"name": formatted(OBJECT_NAME)}, required=("name",)),
        },
        required=("driver",),
    ),
    "downwardAPI": fields({"defaultMode": _MODE, "items": each(downward_file)}),
    "emptyDir": fields({"sizeLimit": _size_limit}),
    "ephemeral": fields(
        {"volumeClaimTemplate": _CLAIM_TEMPLATE}, required=("volumeClaimTemplate",)
    ),
    "fc": fields(
        {"lun": between(0, 255)},
        exactly_one(DISK_NAMES_NOT_ONE, "list of names", ("targetWWNs", "wwids")),
        _unit_number,
    ),
    "flexVolume": required_text("driver"),
    "flocker": fields({}),
    "gcePersistentDisk": fields({"partition": between(0, 255)}, required=("pdName",)),
    "gitRepo": fields({"directory": descending}, required=("repository",)),
    "glusterfs": required_text("endpoints", "path"),
    "hostPath": fields(
        {
            "path": no_backsteps,
            "type": one_of(
                "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice",
                "BlockDevice",
            ),
        },
        required=("path",),
    ),
    "image": fields(
        {"pullPolicy": one_of("Always", "IfNotPresent", "Never")}, required=("reference",)
    ),
    "iscsi": fields({"lun": between(0, 255)}, required=("targetPortal", "iqn")),
    "nfs": fields({"path": _absolute}, required=("server", "path")),
    "persistentVolumeClaim": required_text("claimName"),
    "photonPersistentDisk": required_text("pdID"),
    "portworxVolume": required_text("volumeID"),
    "projected": fields(
        {"defaultMode": _MODE, "sources": each(_PROJECTED_SOURCE)}, _projected_paths
    ),
    "quobyte": required_text("registry", "volume"),
    "rbd": required_text("monitors", "image"),
    "scaleIO": required_text("gateway", "system", "volumeName", "secretRef"),
    "secret": fields({"defaultMode": _MODE, "items": _ITEMS}, required=("secretName",)),
    "storageos": fields({}),
    "vsphereVolume": required_text("volumePath"),
}  # fmt: skip

_VOLUME = fields(
    {"name": formatted(DNS_LABEL), **SOURCES},
    exactly_one(VOLUME_SOURCES_SEVERAL, "source", tuple(SOURCES), least=0),
    required=("name",),
)


#: The volumes of a pod; one without a source is an `emptyDir`.
volumes = each(_VOLUME)


def volume_names(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]] | None:
    """The volumes of a pod by name, None where they are not all known."""
    held = spec.get("volumes")
    if is_output(held):
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for volume in held if isinstance(held, (list, tuple)) else ():
        if is_output(volume) or (isinstance(volume, Mapping) and is_output(volume.get("name"))):
            return None
        if isinstance(volume, Mapping) and given(volume.get("name")):
            found[text(volume["name"])] = volume
    return found
