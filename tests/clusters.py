"""A fake cluster in memory that answers the requests of `KubernetesApi`."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from fusioninfer_pulumi.kube.client import KubernetesApi

Object = dict[str, Any]
Reply = tuple[int, Object]

#: Kinds of each API version; those with a slash have no namespace.
KINDS = {
    "v1": "Namespace/ Node/ Pod Service Secret ConfigMap ServiceAccount PersistentVolumeClaim "
    "ResourceQuota Event",
    "apps/v1": "DaemonSet Deployment StatefulSet",
    "batch/v1": "Job",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole/ ClusterRoleBinding/",
    "policy/v1": "PodDisruptionBudget",
    "networking.k8s.io/v1": "NetworkPolicy",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "storage.k8s.io/v1": "StorageClass/",
    "scheduling.k8s.io/v1": "PriorityClass/",
    "node.k8s.io/v1": "RuntimeClass/",
    "resource.k8s.io/v1": "ResourceClaim ResourceClaimTemplate DeviceClass/",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition/",
    "leaderworkerset.x-k8s.io/v1": "LeaderWorkerSet",
    "scheduling.volcano.sh/v1beta1": "PodGroup Queue/",
    "kueue.x-k8s.io/v1beta2": "LocalQueue ClusterQueue/ Cohort/ Workload",
    "gateway.networking.k8s.io/v1": "Gateway HTTPRoute",
    "gateway.networking.k8s.io/v1beta1": "ReferenceGrant",
    "inference.networking.k8s.io/v1": "InferencePool",
    "inference.networking.x-k8s.io/v1alpha2": "InferenceObjective InferenceModelRewrite",
    "monitoring.coreos.com/v1": "PodMonitor ServiceMonitor PrometheusRule",
    "keda.sh/v1alpha1": "ScaledObject",
    "networking.istio.io/v1": "DestinationRule",
    "networking.gke.io/v1": "HealthCheckPolicy GCPBackendPolicy",
    "custom.metrics.k8s.io/v1beta2": "",
    "external.metrics.k8s.io/v1beta1": "",
}
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<version>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/.))?(?:/(?P<plural>[^/]+))?(?:/(?P<name>.+))?"
)


def plural(kind: str) -> str:
    """Return the name of a kind in paths."""
    name = kind.lower()
    if name.endswith("y") and not name.endswith("ay"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def stored(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    """Return an object as the API server stores it."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


class FakeCluster(KubernetesApi):
    """A fake cluster with these objects. It accepts all dry runs by default.

    Attributes:
        requests: Method and path of each request.
        sent: Bodies of dry runs.
    """

    def __init__(
        self,
        *objects: Object,
        without: Iterable[str] = (),
        more: Iterable[tuple[str, str]] = (),
        denied: Iterable[str] = (),
        reject: Callable[[Object], Reply | None] = lambda _: None,
        version: str = "v1.35.4",
    ) -> None:
        """Create a cluster `without` some API groups or kinds, and with `more` kinds.

        Paths that contain one of `denied` return 403; `reject` returns the response to a dry run.
        """
        self._paths, self.unread = {}, Counter()
        self.objects_stored = list(objects)
        self.apis = {
            api: [kind for kind in kinds.split() if kind.rstrip("/") not in without]
            for api, kinds in KINDS.items()
            if not {api, api.rpartition("/")[0]} & set(without)
        }
        for api, kind in more:
            self.apis.setdefault(api, []).append(kind)
        self.denied, self.reject, self.version = tuple(denied), reject, version
        self.requests: list[tuple[str, str]] = []
        self.sent: list[Object] = []
        self._lock = threading.Lock()

    def request(
        self, method: str, path: str, query: Any = None, body: Any = None, **_: Any
    ) -> Reply:
        with self._lock:
            self.requests.append((method, path))
        if any(part in path for part in self.denied):
            return 403, {"reason": "Forbidden"}
        if body is not None:
            assert query["dryRun"] == "All"
            with self._lock:
                self.sent.append(body)
            return self.reject(body) or (201, {})
        if path == "/version":
            return 200, {"gitVersion": self.version}
        if path == "/apis":
            return 200, {"groups": self._groups()}
        match = _PATH.fullmatch(path)
        assert match is not None, path
        api = match["core"] or match["version"]
        if match["plural"] is None:
            return self._resources(api)
        result = [
            item
            for item in self.objects_stored
            if item["apiVersion"] == api
            and plural(item["kind"]) == match["plural"]
            and match["namespace"] in (None, item["metadata"].get("namespace"))
            and match["name"] in (None, item["metadata"]["name"])
        ]
        if match["name"] is None:
            return 200, {"items": result}
        return (200, result[0]) if result else (404, {})

    def _groups(self) -> list[Object]:
        versions: dict[str, list[Object]] = {}
        for api in self.apis:
            group, _, version = api.rpartition("/")
            if group:
                versions.setdefault(group, []).append({"version": version})
        return [
            {"name": group, "preferredVersion": item[0], "versions": item}
            for group, item in versions.items()
        ]

    def _resources(self, api: str) -> Reply:
        if api not in self.apis:
            return 404, {}
        return 200, {
            "resources": [
                {
                    "kind": kind.rstrip("/"),
                    "name": plural(kind.rstrip("/")),
                    "namespaced": not kind.endswith("/"),
                }
                for kind in self.apis[api]
            ]
        }
