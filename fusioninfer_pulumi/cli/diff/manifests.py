"""Kubernetes manifests of any origin: their identities, and what restarts their pods.

Updates of LeaderWorkerSets behave as in release 0.10 (revision_utils.go,
leaderworkerset_webhook.go): the revision is `networkConfig` and `leaderWorkerTemplate`, nothing
else restarts a replica.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import at
from fusioninfer_pulumi.kube.resource_requests import accelerators
from fusioninfer_pulumi.topology import leader_worker_set as lws_objects
from fusioninfer_pulumi.topology.gang import NATIVE_GROUP

Manifest = Mapping[str, Any]
#: Namespace and name of a service.
Service = tuple[str, str]

LWS_TEMPLATE = "spec.leaderWorkerTemplate"
LWS_NETWORK = "spec.networkConfig"
#: The rolling update settings of a LeaderWorkerSet.
ROLLING = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
_APPS_KINDS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
# LeaderWorkerSet's defaults: setting them explicitly creates no new revision.
_TEMPLATE_DEFAULTS = {"size": 1, "restartPolicy": "RecreateGroupOnPodRestart"}
_NETWORK_DEFAULT = {"subdomainPolicy": "Shared"}


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


# Built once: that takes longer than comparing most manifests.
_ENCODER = json.JSONEncoder(default=str)
_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=str)
_SORTED = json.JSONEncoder(sort_keys=True)


def plain(value: Any) -> Any:
    """A copy as JSON has it: text for what JSON cannot hold, and 1 for 1.0."""
    return _DECODER.decode(_ENCODER.encode(value))


def to_canonical(value: Any) -> str:
    """A plain value as text: equal for equal values, in any order of their keys."""
    return _SORTED.encode(value)


def is_equal(old: Any, new: Any) -> bool:
    """Whether two plain values are equal; Python takes True and 1 for equal, JSON does not."""
    return old is new or to_canonical(old) == to_canonical(new)


def get_text(value: Any, *keys: str) -> str:
    """Reads a nested text, empty where there is none."""
    item = at(value, *keys)
    return "" if item is None else str(item)


def get_count(value: Any, *keys: str) -> int:
    """Reads a nested count, 1 (Kubernetes' default everywhere we count) where there is none."""
    number = at(value, *keys)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    return number if is_count else 1


class Identity(NamedTuple):
    """The identity of an object.

    It excludes the API version, because `v1beta1` and `v1` are views of one object. The ordinal
    distinguishes duplicates in a list, so that none is dropped.
    """

    group: str
    kind: str
    namespace: str
    name: str
    ordinal: int = 0

    @property
    def is_lws(self) -> bool:
        """Whether it is a LeaderWorkerSet."""
        return (self.group, self.kind) == ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")

    @property
    def is_pod_group(self) -> bool:
        """Whether it is a PodGroup, Volcano's or one of Kubernetes itself."""
        return self.kind == "PodGroup" and self.group in ("scheduling.volcano.sh", NATIVE_GROUP)

    @property
    def is_apps_workload(self) -> bool:
        """Whether it is a Deployment, StatefulSet or DaemonSet."""
        return self.group == "apps" and self.kind in _APPS_KINDS

    @property
    def template_paths(self) -> tuple[str, ...]:
        """Paths below which a change restarts pods; none where the object runs no pods."""
        if self.is_lws:
            return LWS_TEMPLATE, LWS_NETWORK
        return ("spec.template",) if self.is_apps_workload else ()


Objects = Mapping[Identity, Manifest]


def index_by_identity(manifests: Iterable[Manifest]) -> dict[Identity, Manifest]:
    """Plain manifests by their identities, in their order; a `kind: List` counts as its items."""
    identified: dict[Identity, Manifest] = {}
    for manifest in _flat(manifests):
        group, slash, _ = get_text(manifest, "apiVersion").partition("/")
        names = (get_text(manifest, "metadata", field) for field in ("name", "generateName"))
        key = Identity(
            group=group if slash else "",
            kind=get_text(manifest, "kind"),
            namespace=get_text(manifest, "metadata", "namespace") or "default",
            name=next(filter(None, names), ""),
        )
        while key in identified:
            key = key._replace(ordinal=key.ordinal + 1)
        identified[key] = plain(manifest)
    return identified


def _flat(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    for manifest in manifests:
        items = at(manifest, "items")
        if isinstance(items, (list, tuple)) and at(manifest, "kind") == "List":
            yield from _flat(items)
        elif isinstance(manifest, Mapping):
            yield manifest


def lws_of(objects: Objects) -> Objects:
    """The LeaderWorkerSets among objects."""
    return {key: manifest for key, manifest in objects.items() if key.is_lws}


def get_labels(manifest: Manifest | None) -> Mapping[str, Any]:
    """The labels of an object."""
    of_object = at(manifest, "metadata", "labels")
    return of_object if isinstance(of_object, Mapping) else {}


def label(manifest: Manifest | None, name: str) -> str:
    """A label of an object, empty without one."""
    return get_text(get_labels(manifest), name)


def service_of(key: Identity, manifest: Manifest | None) -> Service:
    """Service that an object belongs to; without labels, a LeaderWorkerSet's name.

    The name is empty for other objects without labels.
    """
    return key.namespace, label(manifest, labels.SERVICE) or (key.name if key.is_lws else "")


def role_of(key: Identity, manifest: Manifest | None) -> str:
    """Role that a workload runs; without labels, the workload's name."""
    return label(manifest, labels.ROLE_NAME) or key.name


def get_partition(manifest: Manifest) -> int:
    """Ordinal below which an update of a LeaderWorkerSet leaves its groups as they are."""
    is_set = at(manifest, *ROLLING, "partition") is not None
    return get_count(manifest, *ROLLING, "partition") if is_set else 0


def count_pods_and_accelerators(manifest: Manifest) -> tuple[int, int]:
    """Counts the pods and accelerators of a LeaderWorkerSet."""
    template = at(manifest, "spec", "leaderWorkerTemplate")
    replicas, size = get_count(manifest, "spec", "replicas"), max(get_count(template, "size"), 1)
    worker = at(template, "workerTemplate")
    devices = _accelerators(at(template, "leaderTemplate") or worker)
    return replicas * size, replicas * (devices + (size - 1) * _accelerators(worker))


def _accelerators(template: Any) -> int:
    """Accelerators of a pod, 0 for an invalid template."""
    try:
        return accelerators(template)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0


def restarts(key: Identity, old: Manifest, new: Manifest) -> bool:
    """Whether an update of an object restarts its pods."""
    if key.is_lws:
        return not is_equal(_lws_revision(old), _lws_revision(new))
    return key.is_apps_workload and not is_equal(*(_at_or_mask(m, "template") for m in (old, new)))


def _at_or_mask(manifest: Manifest, field: str) -> Any:
    """A field of the spec, or the mask of a secret spec."""
    spec = at(manifest, "spec")
    return spec if isinstance(spec, str) else at(spec, field)


def _lws_revision(manifest: Manifest) -> list[Any]:
    template = _at_or_mask(manifest, "leaderWorkerTemplate")
    if isinstance(template, Mapping):
        policy = at(template, lws_objects.SUB_GROUP_POLICY)
        if isinstance(policy, Mapping):
            template = {
                **template,
                lws_objects.SUB_GROUP_POLICY: lws_objects.with_default_type(policy),
            }
        template = {**_TEMPLATE_DEFAULTS, **template}
    network = at(manifest, "spec", "networkConfig")
    return [template, _NETWORK_DEFAULT if network is None else network]


def find_immutable_change(key: Identity, old: Manifest, new: Manifest) -> str | None:
    """The first field that no update changes, so that the object is replaced; None without one."""
    if key.is_apps_workload:
        changed = not is_equal(at(old, "spec", "selector"), at(new, "spec", "selector"))
        return "selector" if changed else None
    if not key.is_lws:
        return None
    olds, news = (at(manifest, "spec", "leaderWorkerTemplate") for manifest in (old, new))
    policies = [at(template, lws_objects.SUB_GROUP_POLICY) for template in (olds, news)]
    if not lws_objects.is_same_policy(*policies):
        if None in policies:
            return lws_objects.SUB_GROUP_POLICY
        sizes = (at(policy, lws_objects.SUB_GROUP_SIZE) for policy in policies)
        differing = lws_objects.SUB_GROUP_TYPE if is_equal(*sizes) else lws_objects.SUB_GROUP_SIZE
        return f"{lws_objects.SUB_GROUP_POLICY}.{differing}"
    if not is_equal(at(olds, "volumeClaimTemplates") or [], at(news, "volumeClaimTemplates") or []):
        return "volumeClaimTemplates"
    return None
