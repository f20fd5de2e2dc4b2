"""Kubernetes manifests from any source: their identities, and which changes restart their pods.

In LeaderWorkerSet 0.10 (revision_utils.go, leaderworkerset_webhook.go) only changes of
`networkConfig` or `leaderWorkerTemplate` restart a replica.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.kube.resource_requests import count_accelerators
from fusioninfer_pulumi.topology import leader_worker_set as lws_objects
from fusioninfer_pulumi.topology.gang import NATIVE_GROUP

ParsedManifest = Mapping[str, Any]


class ServiceIdentity(NamedTuple):
    """The identity of a service; `name` is empty for objects that belong to no service."""

    namespace: str
    name: str


LWS_TEMPLATE = "spec.leaderWorkerTemplate"
LWS_NETWORK = "spec.networkConfig"
#: Keys of a LeaderWorkerSet's rolling update settings.
_ROLLING_UPDATE = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
# LeaderWorkerSet's defaults: setting them explicitly creates no new revision.
_TEMPLATE_DEFAULTS = {"size": 1, "restartPolicy": "RecreateGroupOnPodRestart"}
_NETWORK_DEFAULT = {"subdomainPolicy": "Shared"}


def _parse_number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


# Shared, because creating an encoder takes longer than comparing most manifests.
_ENCODER = json.JSONEncoder(default=str)
_DECODER = json.JSONDecoder(parse_float=_parse_number, parse_constant=str)
_SORTING_ENCODER = json.JSONEncoder(sort_keys=True)


def to_plain(value: Any) -> Any:
    """Return a copy with JSON types only; values of other types become text, 1.0 becomes 1."""
    return _DECODER.decode(_ENCODER.encode(value))


def to_canonical(value: Any) -> str:
    """Return a plain value as JSON with sorted keys, so that equal values have equal texts."""
    return _SORTING_ENCODER.encode(value)


def is_equal(old: Any, new: Any) -> bool:
    """Return whether two plain values are equal as JSON; unlike in Python, True is not 1."""
    return old is new or to_canonical(old) == to_canonical(new)


def get_text(value: Any, *keys: str) -> str:
    """Return a nested value as text, or empty if it is missing."""
    item = lookup(value, *keys)
    return "" if item is None else str(item)


def get_count(value: Any, *keys: str, default: int = 1) -> int:
    """Return a nested count, or Kubernetes' default if it is missing or invalid."""
    number = lookup(value, *keys)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    return number if is_count else default


class Identity(NamedTuple):
    """The identity of an object.

    The API version is excluded, because the same object may be read as `v1beta1` and as `v1`.
    `occurrence` counts from 0, and is above 0 only for objects that a list contains several times.
    """

    group: str
    kind: str
    namespace: str
    name: str
    occurrence: int = 0

    @property
    def is_lws(self) -> bool:
        """Whether the object is a LeaderWorkerSet."""
        return (self.group, self.kind) == ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")

    @property
    def is_pod_group(self) -> bool:
        """Whether the object is a PodGroup of Volcano or Kubernetes."""
        return self.kind == "PodGroup" and self.group in ("scheduling.volcano.sh", NATIVE_GROUP)

    @property
    def is_apps_workload(self) -> bool:
        """Whether the object is a Deployment, StatefulSet or DaemonSet."""
        return self.group == "apps" and self.kind in ("Deployment", "StatefulSet", "DaemonSet")

    @property
    def template_paths(self) -> tuple[str, ...]:
        """Paths whose changes restart the object's pods; empty for kinds without pods."""
        if self.is_lws:
            return LWS_TEMPLATE, LWS_NETWORK
        return ("spec.template",) if self.is_apps_workload else ()


Objects = Mapping[Identity, ParsedManifest]


def index_by_identity(manifests: Iterable[ParsedManifest]) -> dict[Identity, ParsedManifest]:
    """Index manifests by identity, as plain values in the same order; flatten `kind: List`."""
    by_identity: dict[Identity, ParsedManifest] = {}
    for manifest in _flatten(manifests):
        group, slash, _ = get_text(manifest, "apiVersion").partition("/")
        name = get_text(manifest, "metadata", "name")
        key = Identity(
            group=group if slash else "",
            kind=get_text(manifest, "kind"),
            namespace=get_text(manifest, "metadata", "namespace") or "default",
            name=name or get_text(manifest, "metadata", "generateName"),
        )
        while key in by_identity:
            key = key._replace(occurrence=key.occurrence + 1)
        by_identity[key] = to_plain(manifest)
    return by_identity


def _flatten(manifests: Iterable[ParsedManifest]) -> Iterator[ParsedManifest]:
    for manifest in manifests:
        items = lookup(manifest, "items")
        if isinstance(items, (list, tuple)) and lookup(manifest, "kind") == "List":
            yield from _flatten(items)
        elif isinstance(manifest, Mapping):
            yield manifest


def select_lws(objects: Objects) -> Objects:
    """Return the LeaderWorkerSets among objects."""
    return {key: manifest for key, manifest in objects.items() if key.is_lws}


def get_labels(manifest: ParsedManifest | None) -> Mapping[str, Any]:
    """Return the labels of an object."""
    object_labels = lookup(manifest, "metadata", "labels")
    return object_labels if isinstance(object_labels, Mapping) else {}


def get_label(manifest: ParsedManifest | None, name: str) -> str:
    """Return a label of an object, or empty text."""
    return get_text(get_labels(manifest), name)


def get_service(key: Identity, manifest: ParsedManifest | None) -> ServiceIdentity:
    """Return the service that an object belongs to.

    A LeaderWorkerSet without the service's label counts as a service of its own.
    """
    name = get_label(manifest, labels.SERVICE)
    if not name and key.is_lws:
        name = key.name
    return ServiceIdentity(key.namespace, name)


def get_role(key: Identity, manifest: ParsedManifest | None) -> str:
    """Return the role that a workload runs, or the workload's name if it has no label."""
    return get_label(manifest, labels.ROLE_NAME) or key.name


def get_partition(manifest: ParsedManifest) -> int:
    """Return the partition of a LeaderWorkerSet; ordinals below it keep their pod template."""
    return get_count(manifest, *_ROLLING_UPDATE, "partition", default=0)


def count_pods_and_accelerators(manifest: ParsedManifest) -> tuple[int, int]:
    """Count the pods and accelerators of a LeaderWorkerSet."""
    template = lookup(manifest, "spec", "leaderWorkerTemplate")
    replicas = get_count(manifest, "spec", "replicas")
    pods_per_replica = max(get_count(template, "size"), 1)
    worker = lookup(template, "workerTemplate")
    leader = lookup(template, "leaderTemplate") or worker
    worker_accelerators = (pods_per_replica - 1) * _count_accelerators(worker)
    accelerators_per_replica = _count_accelerators(leader) + worker_accelerators
    return replicas * pods_per_replica, replicas * accelerators_per_replica


def _count_accelerators(template: Any) -> int:
    """Return the accelerators of a pod, 0 for an invalid template."""
    try:
        return count_accelerators(template)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0


def needs_restart(key: Identity, old: ParsedManifest, new: ParsedManifest) -> bool:
    """Return whether an update of an object restarts its pods."""
    if key.is_lws:
        return not is_equal(_read_lws_revision(old), _read_lws_revision(new))
    old_template, new_template = (_read_spec_field(side, "template") for side in (old, new))
    return key.is_apps_workload and not is_equal(old_template, new_template)


def _read_spec_field(manifest: ParsedManifest, field: str) -> Any:
    """Return a field of the spec; if the whole spec is secret, return the text that masks it."""
    spec = lookup(manifest, "spec")
    return spec if isinstance(spec, str) else lookup(spec, field)


def _read_lws_revision(manifest: ParsedManifest) -> list[Any]:
    """Return the values whose change creates a new revision."""
    template = _read_spec_field(manifest, "leaderWorkerTemplate")
    if isinstance(template, Mapping):
        policy = lookup(template, lws_objects.SUB_GROUP_POLICY)
        if isinstance(policy, Mapping):
            policy = lws_objects.set_default_type(policy)
            template = {**template, lws_objects.SUB_GROUP_POLICY: policy}
        template = {**_TEMPLATE_DEFAULTS, **template}
    network = lookup(manifest, "spec", "networkConfig")
    return [template, _NETWORK_DEFAULT if network is None else network]


def find_immutable_change(key: Identity, old: ParsedManifest, new: ParsedManifest) -> str | None:
    """Return a changed immutable field, which forces a replacement of the object, or None."""
    if key.is_apps_workload:
        changed = not is_equal(lookup(old, "spec", "selector"), lookup(new, "spec", "selector"))
        return "selector" if changed else None
    if not key.is_lws:
        return None
    templates = [lookup(manifest, "spec", "leaderWorkerTemplate") for manifest in (old, new)]
    old_policy, new_policy = (lookup(item, lws_objects.SUB_GROUP_POLICY) for item in templates)
    if not lws_objects.is_same_policy(old_policy, new_policy):
        return lws_objects.SUB_GROUP_POLICY
    old_claims, new_claims = (lookup(item, "volumeClaimTemplates") or [] for item in templates)
    return None if is_equal(old_claims, new_claims) else "volumeClaimTemplates"
