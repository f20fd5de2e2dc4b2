# ruff: noqa: D103 - the names of tests are sentences
"""The API server takes what a router builds, and real pickers run with it and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from e2e import checks, inputs
from e2e.harness import ApiError, Cluster, Object, ProgramFailedError
from e2e.harness.processes import LOOPBACK
from e2e.routers import (
    FOREIGN_KINDS,
    IMAGES,
    generated_picker,
    objects_of,
    only,
    routed,
)

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))
STRATEGIES = ("prefix-cache", "kv-cache-utilization", "queue-size", "lora-affinity")
HOST = {"hostnames": ["svc.example.com"]}
PARENT = {**HOST, "parentRefs": [{"name": "gateway", "namespace": "infra"}]}

TLS_GATEWAY = {
    "implementation": "agentgateway",
    "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
    "listeners": [
        {
            "name": "https",
            "port": 443,
            "protocol": "HTTPS",
            "hostname": "*.example.com",
            "tls": {"certificateRefs": [{"name": "wildcard", "namespace": "certificates"}]},
        }
    ],
    "infrastructure": {"labels": {"team": "a"}},
    "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
}
RULES = [
    {"matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}]},
    {"matches": [{"path": {"type": "Exact", "value": "/old"}}],
     "filters": [{"type": "RequestRedirect", "requestRedirect": {"statusCode": 301}}]},
    {"name": "mixed", "backendRefs": [{"name": "svc-pool", "port": 8000, "weight": 9},
                     {"name": "fallback", "namespace": "other", "port": 80, "weight": 1}],
     "timeouts": {"request": "90s"}},
]  # fmt: skip

ROUTERS: dict[str, dict[str, Any]] = {
    "route only": {"httproute": PARENT},
    "no route": {},
    "default gateway": {"gateway": {}},
    "referenced gateway": {
        "httproute": HOST,
        "gateway": {"refs": [{"name": "g", "namespace": "infra", "sectionName": "https"}]},
    },
    "managed gateway with TLS": {
        "httproute": HOST,
        "gateway": TLS_GATEWAY,
        "referenceGrants": True,
    },
    "rules": {"httproute": {**PARENT, "rules": RULES}, "referenceGrants": True},
    "several replicas": {"endpointPicker": {"replicas": 3, "failureMode": "FailClose"}},
    "authenticated metrics": {"endpointPicker": {"metrics": "Authenticated"}},
    "unauthenticated metrics": {"endpointPicker": {"metrics": "Unauthenticated"}},
    "certificate": {"endpointPicker": {"tls": {"secretName": "picker-tls"}}},
    "template": {
        "endpointPicker": {
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}},
            "args": ["--health-checking=true"],
            "template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeSelector": {"pool": "system"},
                    "containers": [{"name": "epp", "env": [{"name": "GOGC", "value": "50"}]}],
                },
            },
        }
    },
    "network policies": {
        "endpointPicker": {"metrics": "Unauthenticated"},
        "networkPolicy": {
            "gateway": [{"namespaceSelector": {"matchLabels": {"name": "infra"}}}],
            "metrics": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        },
    },
    "istio": {"httproute": PARENT, "gateway": {"implementation": "istio"}},
    "gke": {"httproute": HOST, "gateway": {"implementation": "gke"}},
}


@pytest.fixture(scope="module")
def foreign(cluster: Cluster) -> Iterator[None]:
    """The namespaces that grants go to."""
    names = ("other", "certificates")
    for name in names:
        cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    yield
    for name in names:
        cluster.delete("v1/Namespace", name)


@pytest.fixture
def restricted(cluster: Cluster, namespace: str) -> str:
    """A namespace in which Kubernetes refuses pods that are not `restricted`."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.patch("v1/Namespace", namespace, {"metadata": {"labels": enforced}})
    return namespace


@pytest.mark.proves("everything that the router documents' inputs become is accepted, kept whole")
@pytest.mark.parametrize("name", [each for each in inputs.DOCUMENTS if each.startswith("router")])
def test_the_documents_routers_are_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    assert_accepted(cluster, inputs.objects_of(inputs.plan_of(inputs.DOCUMENTS[name])), namespace)


@pytest.mark.proves("every option of a router gives objects that are accepted and kept whole")
@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", ROUTERS)
def test_every_option_is_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    assert_accepted(cluster, objects_of(routed(namespace, **ROUTERS[name])))


@pytest.mark.proves("picker pods are admitted to a namespace that enforces the restricted profile")
@pytest.mark.parametrize("name", ["route only", "several replicas", "certificate", "template"])
def test_picker_pods_are_restricted(cluster: Cluster, restricted: str, name: str) -> None:
    objects = objects_of(routed(restricted, **ROUTERS[name]))
    deployment = only(objects, "Deployment")
    routing = [each for each in objects if each["kind"] != "LeaderWorkerSet"]
    cluster.apply(routing)
    wanted = deployment["spec"]["replicas"]
    pods = cluster.wait(
        lambda: found if len(found := cluster.pods(restricted)) == wanted else [],
        message=lambda: cluster.list("v1/Event", restricted),
    )
    labels = deployment["spec"]["selector"]["matchLabels"]
    for pod in pods:
        assert labels.items() <= pod["metadata"]["labels"].items()
        tokens = [v for v in pod["spec"]["volumes"] if v["name"].startswith("kube-api-access")]
        assert len(tokens) == 1, "the picker talks to the API server"


def test_the_restricted_namespace_does_refuse_pods(cluster: Cluster, restricted: str) -> None:
    objects = objects_of(routed(restricted, **ROUTERS["route only"]))
    cluster.apply([only(objects, "ServiceAccount")])
    template = only(objects, "Deployment")["spec"]["template"]
    cluster.create(_pod("picker", restricted, template))
    for part in ("securityContext", "containers"):
        weaker = copy.deepcopy(template)
        holder = weaker["spec"] if part == "securityContext" else weaker["spec"]["containers"][0]
        del holder["securityContext"]
        with pytest.raises(ApiError, match="violates PodSecurity"):
            cluster.create(_pod("weaker", restricted, weaker))


@pytest.mark.proves("pickers v1.2.1 and v1.5.0 serve with what is generated for each strategy")
@VERSIONS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_real_pickers_serve_with_what_is_generated(
    cluster: Cluster, namespace: str, version: str, strategy: str
) -> None:
    picker = {"image": IMAGES[version]}
    objects = objects_of(routed(namespace, strategy=strategy, endpointPicker=picker))
    _apply_for_picker(cluster, objects)
    with generated_picker(cluster, version, objects) as running:
        running.wait_serving()


@pytest.mark.proves("the real pickers see the leaders of a service, and no other pod")
@VERSIONS
def test_real_pickers_see_exactly_the_serving_pods(
    cluster: Cluster, namespace: str, version: str
) -> None:
    cluster.add_nodes(1)
    manifest = routed(namespace, endpointPicker={"image": IMAGES[version]}, httproute=PARENT)
    manifest["spec"]["roles"][1]["multinode"] = {"nodeCount": 3}
    manifest["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    objects = objects_of(manifest)
    neighbour = objects_of(routed(namespace, name="svc-2"))
    cluster.apply([*objects, *neighbour])
    leaders = {"svc-inference-0-0", "svc-inference-1-0"}
    # 2 x 3 of ours, 2 of the neighbour's, and two pickers.
    cluster.wait(
        lambda: len([p for p in cluster.pods(namespace) if _is_ready(p)]) == 10,
        60,
        lambda: cluster.pods(namespace),
    )
    # Metrics tell which pods the picker has: they are let be read for that alone.
    with generated_picker(cluster, version, [_metrics_open(each) for each in objects]) as running:
        running.wait_serving()
        cluster.wait(lambda: running.ready_pods() == leaders, message=running.metrics)


@pytest.mark.proves("several replicas elect a leader with the generated Role")
@VERSIONS
def test_several_replicas_elect_a_leader(cluster: Cluster, namespace: str, version: str) -> None:
    picker = {"image": IMAGES[version], "replicas": 2}
    objects = objects_of(routed(namespace, endpointPicker=picker))
    _apply_for_picker(cluster, objects)
    with generated_picker(cluster, version, objects) as running:
        running.wait_serving()
        leases = cluster.list("coordination.k8s.io/v1/Lease", namespace)
        assert [lease["metadata"]["name"].split(".")[0] for lease in leases] == [
            f"epp-{namespace}-svc-pool"
        ]


@VERSIONS
def test_the_role_of_one_replica_takes_no_leases(
    cluster: Cluster, namespace: str, version: str
) -> None:
    picker = {"image": IMAGES[version], "replicas": 2}
    objects = objects_of(routed(namespace, endpointPicker=picker))
    alone = objects_of(routed(namespace, endpointPicker={"image": IMAGES[version]}))
    _apply_for_picker(cluster, [only(alone, "Role") if o["kind"] == "Role" else o for o in objects])
    with generated_picker(cluster, version, objects) as running:
        with pytest.raises(ProgramFailedError):
            running.wait_serving(timeout=6)
        assert not cluster.list("coordination.k8s.io/v1/Lease", namespace)


@pytest.mark.proves("metrics of a picker are off, or for those who may get /metrics, as stated")
@VERSIONS
def test_metrics_are_for_those_who_may_read_them(
    cluster: Cluster, namespace: str, version: str
) -> None:
    reader = _metrics_reader(namespace)
    for mode, asked in (("Off", {403, 500}), ("Authenticated", {200}), ("Unauthenticated", {200})):
        picker = {"image": IMAGES[version], "metrics": mode}
        objects = objects_of(routed(namespace, endpointPicker=picker))
        _apply_for_picker(cluster, [*objects, *reader])
        with generated_picker(cluster, version, objects) as running:
            running.wait_serving()
            token = _token(cluster, namespace, "scraper")
            answers = {
                "scraper": _status_of_metrics(running.metrics_port, token),
                "stranger": _status_of_metrics(running.metrics_port, None),
            }
        assert answers["scraper"] in asked, f"{mode}: {answers}"
        assert (answers["stranger"] == 200) == (mode == "Unauthenticated"), f"{mode}: {answers}"
    cluster.delete("rbac.authorization.k8s.io/v1/ClusterRoleBinding", _reviewer(namespace))
    for made in reader[1:]:
        cluster.delete(f"{made['apiVersion']}/{made['kind']}", made["metadata"]["name"])


def assert_accepted(cluster: Cluster, objects: list[Object], namespace: str | None = None) -> None:
    placed = inputs.with_namespace(objects, namespace) if namespace else objects
    for sent in placed:
        if sent["kind"] in FOREIGN_KINDS:
            continue
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)


def _apply_for_picker(cluster: Cluster, objects: list[Object]) -> None:
    """Applies what a picker needs and nothing else: its account, its rights and its pool."""
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding", "ClusterRole")
    cluster.apply([each for each in objects if each["kind"] in (*kinds, "InferencePool")])


def _metrics_open(sent: Object) -> Object:
    if sent["kind"] != "Deployment":
        return sent
    opened = copy.deepcopy(sent)
    opened["spec"]["template"]["spec"]["containers"][0]["args"].append(
        "--metrics-endpoint-auth=false"
    )
    return opened


def _metrics_reader(namespace: str) -> list[Object]:
    """Somebody who may get /metrics."""
    group, name = "rbac.authorization.k8s.io", f"scraper-{namespace}"
    account = {"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "scraper", "namespace": namespace},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [account],
        },
    ]


def _reviewer(namespace: str) -> str:
    return f"fusioninfer:{namespace}:svc-epp"


def _token(cluster: Cluster, namespace: str, account: str) -> str:
    path = cluster.resource("v1/ServiceAccount").path(account, namespace, "token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(cluster.request("POST", path, request)["status"]["token"])


def _status_of_metrics(port: int, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        return pool.request("GET", f"http://{LOOPBACK}:{port}/metrics", headers=headers).status


def _pod(name: str, namespace: str, template: Object) -> Object:
    metadata = {**template["metadata"], "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
