"""A service on the cluster that is changed while it runs, as the component would change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from fusioninfer_pulumi.component.diagnosis import find_failed_lws, read_pods
from fusioninfer_pulumi.component.status import ServiceStatus, is_available, service_status
from fusioninfer_pulumi.kube.labels import REVISION
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PATIENCE = 120
SET_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
Change = Callable[[list[Object]], list[Object]]


class LiveService:
    """One service in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, manifest: Object) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.manifest = manifest
        self._applied: list[Object] = []

    @property
    def plan(self) -> ServicePlan:
        return inputs.plan_of(self.manifest)

    def apply(self, manifest: Object | None = None, change: Change = list) -> None:
        """Apply all objects in order, then delete those that are no longer wanted.

        This is the order of Pulumi: a lowered PodGroup precedes the deletion of a replica.
        """
        self.manifest = manifest or self.manifest
        objects = change(inputs.with_namespace(inputs.objects_of(self.plan), self.namespace))
        self.cluster.apply(objects)
        kept = {_key(each) for each in objects}
        for each in reversed(self._applied):
            if _key(each) not in kept:
                self.cluster.delete(*_key(each), self.namespace)
        self._applied = objects

    def delete(self) -> None:
        for each in reversed(self._applied):
            self.cluster.delete(*_key(each), self.namespace)
        self._applied = []

    def pods(self) -> list[Object]:
        pods = self.cluster.pods(self.namespace, f"fusioninfer.io/service={self.plan.service}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def bound(self) -> dict[str, int]:
        """Bound pods of each `{role}-{replica}` that has any pod."""
        counts = Counter({task_of(pod): 0 for pod in self.pods()})
        counts.update(task_of(pod) for pod in self.pods() if pod["spec"].get("nodeName"))
        return dict(counts)

    def identities(self, *tasks: str) -> dict[str, str]:
        """The pods of some replicas, or of all, and who they are: a restarted pod is another."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.pods()
            if not tasks or task_of(pod) in tasks
        }

    def becomes(self, wanted: Mapping[str, int]) -> None:
        """Wait until these pods exist and so many of them are bound; demand that it stays so."""
        self.cluster.wait(
            lambda: self.bound() == wanted and len(self.pods()) == self.plan.total_pods,
            PATIENCE,
            lambda: (self.bound(), self.pod_group()),
        )
        self.stays(wanted)

    def stays(self, wanted: Mapping[str, int]) -> None:
        """Demand that so many pods are bound after several scheduling cycles, too."""
        self.cluster.settle(5)
        found = self.bound()
        assert found == wanted, f"bound {found}, wanted {dict(wanted)}"

    def pod_group(self) -> Object | None:
        return self._read("PodGroup", self.plan.service)

    def lws(self) -> dict[str, Object | None]:
        names = [each.name for role in self.plan.roles for each in role.lws]
        return {name: self._read("LeaderWorkerSet", name) for name in names}

    def routing(self) -> dict[str, Object | None]:
        """The live Gateway, pool and route; empty without a router."""
        routing = self.plan.routing
        if routing is None:
            return {}
        planned = {
            "Gateway": routing.gateway,
            "InferencePool": routing.picker.pool if routing.picker is not None else None,
            "HTTPRoute": routing.route,
        }
        return {each.name: self._read(kind, each.name) for kind, each in planned.items() if each}

    def status(self, failures: Mapping[str, str] | None = None) -> ServiceStatus:
        live = {**self.lws(), self.plan.service: self.pod_group()}
        return service_status(self.plan, live, failures)

    def failing(self, *names: str) -> dict[str, str]:
        """Waits until pods of these sets fail; tells why, read as the component reads it."""
        found: dict[str, str] = {}

        def look() -> bool:
            lws = {name: each for name, each in self.lws().items() if each and name in names}
            revisions = {name: each["metadata"]["labels"][REVISION] for name, each in lws.items()}
            where = (str(self.cluster.kubeconfig), None, self.namespace, self.plan.service)
            found.clear()
            found.update(find_failed_lws(revisions, read_pods(*where)))
            return set(found) == set(names)

        self.cluster.wait(look, PATIENCE, lambda: found)
        return found

    def _read(self, kind: str, name: str) -> Object | None:
        try:
            return self.cluster.get(kind, name, self.namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise


def await_images(
    cluster: Cluster, namespace: str, images: Mapping[str, str], others: Collection[str] = ()
) -> None:
    """Wait until exactly these LeaderWorkerSets, and `others`, are there and serve these images."""

    def done() -> bool:
        listed = cluster.list("LeaderWorkerSet", namespace)
        stored = {lws["metadata"]["name"]: lws for lws in listed}
        running = {
            (pod["metadata"]["labels"][SET_NAME], pod["spec"]["containers"][0]["image"])
            for pod in cluster.ready(namespace)
        }
        return (
            stored.keys() - others == images.keys()
            and running == set(images.items())
            and all(is_available(stored[name]) for name in images)
        )

    cluster.wait(done, PATIENCE, lambda: str([p["status"] for p in cluster.pods(namespace)]))


def task_of(pod: Object) -> str:
    """`{role}-{replica}` of a pod."""
    labels = pod["metadata"]["labels"]
    # Where one set runs all replicas of a role, its groups are the replicas.
    index = labels.get("fusioninfer.io/replica-index") or labels[GROUP_INDEX]
    return f"{labels['fusioninfer.io/role-name']}-{index}"


def _key(each: Object) -> tuple[str, str]:
    return f"{each['apiVersion']}/{each['kind']}", each["metadata"]["name"]
