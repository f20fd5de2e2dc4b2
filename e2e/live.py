"""A service on the cluster that changes as the component would change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from fusioninfer_pulumi.component.cluster_access import list_objects
from fusioninfer_pulumi.component.diagnosis import PodSnapshot, find_lws_failures
from fusioninfer_pulumi.component.status import ServiceStatus, compute_status, is_available
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.labels import REVISION
from fusioninfer_pulumi.plan.service_plan import ServicePlan

TIMEOUT = 120
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
Change = Callable[[list[Object]], list[Object]]


class LiveService:
    """A service in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, manifest: Object) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.manifest = manifest
        self._applied: list[Object] = []

    @property
    def plan(self) -> ServicePlan:
        return inputs.build_plan(self.manifest)

    def apply(self, manifest: Object | None = None, change: Change = list) -> None:
        """Apply all objects in order, then delete obsolete ones, as Pulumi does.

        So the PodGroup's minimum is lowered before a replica is deleted.
        """
        self.manifest = manifest or self.manifest
        objects = change(inputs.with_namespace(inputs.render_objects(self.plan), self.namespace))
        self.cluster.apply(objects)
        keys = {_get_key(item) for item in objects}
        for item in reversed(self._applied):
            if _get_key(item) not in keys:
                self.cluster.delete(*_get_key(item), self.namespace)
        self._applied = objects

    def delete(self) -> None:
        for manifest in reversed(self._applied):
            self.cluster.delete(*_get_key(manifest), self.namespace)
        self._applied = []

    def pods(self) -> list[Object]:
        pods = self.cluster.pods(self.namespace, f"fusioninfer.io/service={self.plan.service}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def count_bound(self) -> dict[str, int]:
        """Return the number of bound pods by `{role}-{replica}`."""
        counts = Counter({get_task(pod): 0 for pod in self.pods()})
        counts.update(get_task(pod) for pod in self.pods() if pod["spec"].get("nodeName"))
        return dict(counts)

    def read_uids(self, *tasks: str) -> dict[str, str]:
        """Return the UIDs of pods of some or all replicas. Restarting a pod changes its UID."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.pods()
            if not tasks or get_task(pod) in tasks
        }

    def wait_bound(self, wanted: Mapping[str, int]) -> None:
        """Wait until this many pods of each replica are bound; assert that this is stable."""
        self.cluster.wait(
            lambda: self.count_bound() == wanted and len(self.pods()) == self.plan.total_pods,
            TIMEOUT,
            lambda: (self.count_bound(), self.pod_group()),
        )
        self.assert_stays_bound(wanted)

    def assert_stays_bound(self, wanted: Mapping[str, int]) -> None:
        """Assert that this many pods are bound after several scheduling cycles."""
        self.cluster.wait_scheduling_cycles(5)
        bound = self.count_bound()
        assert bound == wanted, f"bound {bound}, wanted {dict(wanted)}"

    def pod_group(self) -> Object | None:
        return self._read("PodGroup", self.plan.service)

    def lws(self) -> dict[str, Object | None]:
        names = [lws.name for role in self.plan.roles for lws in role.lws]
        return {name: self._read("LeaderWorkerSet", name) for name in names}

    def routing(self) -> dict[str, Object | None]:
        """Return the live Gateway, InferencePool and HTTPRoute, if the service has a router."""
        routing = self.plan.routing
        if routing is None:
            return {}
        planned = {
            "Gateway": routing.gateway,
            "InferencePool": routing.picker.pool if routing.picker is not None else None,
            "HTTPRoute": routing.route,
        }
        return {item.name: self._read(kind, item.name) for kind, item in planned.items() if item}

    def status(self, failures: Mapping[str, str] | None = None) -> ServiceStatus:
        live = {**self.lws(), self.plan.service: self.pod_group()}
        return compute_status(self.plan, live, failures)

    def wait_failed(self, *names: str) -> dict[str, str]:
        """Wait until pods of these LeaderWorkerSets fail; return the reasons."""
        failures: dict[str, str] = {}

        def have_failed() -> bool:
            lws = {name: item for name, item in self.lws().items() if item and name in names}
            revisions = {name: item["metadata"]["labels"][REVISION] for name, item in lws.items()}
            api = KubernetesApi(str(self.cluster.kubeconfig), None)
            failures.clear()
            pods = list_objects(api, self.namespace, self.plan.service, [("v1", "Pod")])
            failures.update(find_lws_failures(revisions, PodSnapshot(list(pods.values()))))
            return set(failures) == set(names)

        self.cluster.wait(have_failed, TIMEOUT, lambda: failures)
        return failures

    def _read(self, kind: str, name: str) -> Object | None:
        try:
            return self.cluster.get(kind, name, self.namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise


def wait_for_images(
    cluster: Cluster, namespace: str, images: Mapping[str, str], ignored: Collection[str] = ()
) -> None:
    """Wait until only these and `ignored` LeaderWorkerSets exist, ready with these images."""

    def is_done() -> bool:
        listed = cluster.list("LeaderWorkerSet", namespace)
        stored = {lws["metadata"]["name"]: lws for lws in listed}
        running = {
            (pod["metadata"]["labels"][LWS_NAME], pod["spec"]["containers"][0]["image"])
            for pod in cluster.ready_pods(namespace)
        }
        return (
            stored.keys() - ignored == images.keys()
            and running == set(images.items())
            and all(is_available(stored[name]) for name in images)
        )

    cluster.wait(is_done, TIMEOUT, lambda: str([p["status"] for p in cluster.pods(namespace)]))


def get_task(pod: Object) -> str:
    """Return `{role}-{replica}` of a pod."""
    labels = pod["metadata"]["labels"]
    # With layout PerRole, replicas are groups of one LeaderWorkerSet.
    index = labels.get("fusioninfer.io/replica-index") or labels[GROUP_INDEX]
    return f"{labels['fusioninfer.io/role-name']}-{index}"


def _get_key(manifest: Object) -> tuple[str, str]:
    return f"{manifest['apiVersion']}/{manifest['kind']}", manifest["metadata"]["name"]
