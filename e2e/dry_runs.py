"""Dry runs of rendered objects, and of what controllers make of them, on the API server."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from e2e.harness import ApiError, Client, Object

_LWS = "leaderworkerset.sigs.k8s.io"
#: Indexes and keys of fields, and what stands for itself in messages.
_FIELD, _VALUE = re.compile(r"\[[^\]]*\]"), re.compile(r'"(\\.|[^"\\])*"|\d+')
_KEY = "0" * 40

#: Fields of pods that name what a cluster has or has not, and those that follow from it: an
#: admission plugin looks them up. Their form is checked in the StatefulSet.
OF_CLUSTERS = (
    "serviceAccount",
    "serviceAccountName",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "runtimeClassName",
)


@dataclass(frozen=True)
class Rejection:
    """What the API server rejected."""

    kind: str
    message: str
    causes: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """Its class: kind, fields and reasons without names and numbers."""
        found = self.causes or (("", self.message),)
        parts = sorted(
            {f"{_FIELD.sub('[]', at)}: {_VALUE.sub('..', why)[:120]}" for at, why in found}
        )
        return f"{self.kind} {'; '.join(parts)[:300]}"


@dataclass
class DryRuns:
    """Creates objects by server-side dry run, equal ones once, several at a time."""

    client: Client
    namespace: str
    workers: int = 8
    sent: int = 0
    _known: dict[str, Future[list[Rejection]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.workers)

    def rejections(self, objects: Iterable[Object]) -> list[Future[list[Rejection]]]:
        """Sends the objects; the futures hold what is rejected of each."""
        return [self._rejections(each) for each in distinct(objects)]

    def _rejections(self, sent: Object) -> Future[list[Rejection]]:
        placed = {**sent, "metadata": {**sent["metadata"], "namespace": self.namespace}}
        key = json.dumps(placed, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._pool.submit(self._all_of, placed)
        return self._known[key]

    def _all_of(self, sent: Object) -> list[Rejection]:
        try:
            self.client.resource(f"{sent['apiVersion']}/{sent['kind']}")
        except LookupError:
            return []  # a kind of a gateway's that is not installed
        stored, rejected = self._created(sent, sent["kind"])
        if stored is None or sent["kind"] not in _DERIVED:
            return rejected
        for derived in _DERIVED[sent["kind"]](stored):
            rejected += self._created(derived, f"derived {derived['kind']}")[1]
        return rejected

    def _created(self, sent: Object, kind: str) -> tuple[Object | None, list[Rejection]]:
        self.sent += 1
        try:
            if kind == "derived StatefulSet":  # the controller applies it
                (stored,) = self.client.apply([sent], dry_run=True)
            else:
                stored = self.client.create(sent, dry_run=True)
        except ApiError as problem:
            details = problem.body.get("details") or {}
            causes = tuple(
                (str(cause.get("field")), str(cause.get("message")))
                for cause in details.get("causes") or ()
            )
            return None, [Rejection(kind, str(problem), causes)]
        return stored, []


def distinct(objects: Iterable[Object]) -> Iterator[Object]:
    """Leaves out sets that differ from another one in name and ordinal alone."""
    last: dict[str, Object] = {}
    for number, each in enumerate(objects):
        key = str(number)
        if each["kind"] == "LeaderWorkerSet":
            spec = json.dumps(each["spec"], sort_keys=True)
            for label in ("replica-index", "group-index"):
                value = each["metadata"]["labels"].get(f"fusioninfer.io/{label}")
                spec = spec.replace(f'"fusioninfer.io/{label}": {json.dumps(value)}', "")
            role = each["metadata"]["labels"].get("fusioninfer.io/role-name")
            key = f"{role} {spec.replace(each['metadata']['name'].rpartition('-')[2], '')}"
        last[key] = each
    yield from last.values()


def _of_template(stored: Object) -> Iterator[Object]:
    """The pod that a Deployment or a Job makes."""
    template, name = stored["spec"]["template"], stored["metadata"]["name"]
    metadata = {**template["metadata"], "name": f"{name}-0"}
    metadata["namespace"] = stored["metadata"]["namespace"]
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(template)}


def derived_objects(stored: Object) -> Iterator[Object]:
    """What LeaderWorkerSet 0.9 makes of a set, as far as its controllers get.

    `constructLeaderStatefulSetApplyConfiguration` and
    `constructWorkerStatefulSetApplyConfiguration`, then the pods of both as the StatefulSet
    controller makes them.
    """
    name, spec = stored["metadata"]["name"], stored["spec"]
    group = spec["leaderWorkerTemplate"]
    size = group["size"]
    annotations = {f"{_LWS}/size": str(size)}
    if group.get("subGroupPolicy"):
        annotations[f"{_LWS}/subgroup-size"] = str(group["subGroupPolicy"]["subGroupSize"])
    unique = spec["networkConfig"]["subdomainPolicy"] == "UniquePerReplica"
    leading = {f"{_LWS}/name": name, f"{_LWS}/worker-index": "0"}
    leader_annotations = dict(annotations)
    if unique:
        leader_annotations[f"{_LWS}/subdomainPolicy"] = "UniquePerReplica"
    labels = {**leading, f"{_LWS}/template-revision-hash": "5d9f7c8b6"}
    template = _template(
        group.get("leaderTemplate") or group["workerTemplate"], labels, leader_annotations
    )
    yield _stateful_set(stored, name, name, template, leading, 1)
    yield _pod(stored, template, f"{name}-0", name, "0")
    if size == 1:
        return
    selected = {f"{_LWS}/group-index": "0", f"{_LWS}/name": name, f"{_LWS}/group-key": _KEY}
    labels = {**selected, f"{_LWS}/template-revision-hash": "5d9f7c8b6"}
    worker_annotations = {**annotations, f"{_LWS}/leader-name": f"{name}-0"}
    template = _template(group["workerTemplate"], labels, worker_annotations)
    service = f"{name}-0" if unique else name
    made = _stateful_set(stored, f"{name}-0", service, template, selected, size - 1)
    made["spec"]["ordinals"] = {"start": 1}
    yield made
    yield _pod(stored, template, f"{name}-0-{size - 1}", service, str(size - 1))


def _template(given: Object, labels: dict[str, str], annotations: dict[str, str]) -> Object:
    made: Object = copy.deepcopy(given)
    metadata = made.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return made


def _stateful_set(
    stored: Object, name: str, service: str, template: Object, selected: dict[str, str], count: int
) -> Object:
    metadata = {"name": name, "namespace": stored["metadata"]["namespace"], "labels": selected}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": service,
            "replicas": count,
            "podManagementPolicy": "Parallel",
            "template": template,
            "selector": {"matchLabels": selected},
        },
    }


def _pod(stored: Object, template: Object, name: str, service: str, ordinal: str) -> Object:
    metadata: dict[str, Any] = copy.deepcopy(template.get("metadata") or {})
    metadata["labels"] |= {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": ordinal,
        "controller-revision-hash": f"{name.rpartition('-')[0]}-5d9f7c8b6",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": name, "namespace": stored["metadata"]["namespace"]},
        "spec": {**_spec(template), "hostname": name, "subdomain": service},
    }


def _spec(template: Object) -> Object:
    """A pod spec without what other objects of the cluster decide about."""
    spec: Object = template["spec"]
    left_out = (*OF_CLUSTERS, *(("overhead",) if "runtimeClassName" in spec else ()))
    return {key: value for key, value in spec.items() if key not in left_out}


_DERIVED = {
    "LeaderWorkerSet": derived_objects,
    "Deployment": _of_template,
    "Job": _of_template,
}
