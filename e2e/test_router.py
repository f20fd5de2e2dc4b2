"""The API server takes what a router builds, also where it enforces the restricted profile."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import checks, inputs
from e2e.harness import ApiError, Cluster, Object
from e2e.routers import FOREIGN_KINDS, HOST, PARENT, objects_of, only, routed

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
    "shares": {"httproute": {**PARENT, "split": [{"service": "canary", "weight": 10}]}},
    "routed by another service": {
        "httproute": {"routedBy": "stable"},
        "gateway": {"implementation": "istio", "refs": [{"name": "shared"}]},
    },
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
    "routes made elsewhere": {
        "httproute": {"refs": [{"name": "chat", "namespace": "other"}, {"name": "batch"}]},
        "referenceGrants": True,
    },
    "istio": {"httproute": PARENT, "gateway": {"implementation": "istio"}},
    "Service": {
        "endpointPicker": {"enabled": False},
        "httproute": {**HOST, "rules": RULES[:2]},
        "gateway": TLS_GATEWAY,
        "networkPolicy": {"gatewayNamespace": "infra"},
        "referenceGrants": True,
    },
    "Service routed elsewhere": {
        "endpointPicker": {"enabled": False},
        "httproute": {"refs": [{"name": "chat", "namespace": "other"}]},
        "referenceGrants": True,
    },
    "Service on gke": {
        "endpointPicker": {"enabled": False},
        "httproute": HOST,
        "gateway": {"implementation": "gke"},
    },
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


@pytest.mark.proves("Objects of the router documents are accepted unchanged")
@pytest.mark.parametrize(
    "name", [document for document in inputs.DOCUMENTS if document.startswith("router")]
)
def test_the_documents_routers_are_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    assert_accepted(cluster, inputs.objects_of(inputs.plan_of(inputs.DOCUMENTS[name])), namespace)


@pytest.mark.proves("Objects of every router option are accepted unchanged")
@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", ROUTERS)
def test_every_option_is_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    assert_accepted(cluster, objects_of(routed(namespace, **ROUTERS[name])))


@pytest.mark.proves("Picker pods pass the restricted Pod Security profile")
@pytest.mark.parametrize("name", ["route only", "several replicas", "certificate", "template"])
def test_picker_pods_are_restricted(cluster: Cluster, restricted: str, name: str) -> None:
    objects = objects_of(routed(restricted, **ROUTERS[name]))
    deployment = only(objects, "Deployment")
    routing = [manifest for manifest in objects if manifest["kind"] != "LeaderWorkerSet"]
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


def assert_accepted(cluster: Cluster, objects: list[Object], namespace: str | None = None) -> None:
    placed = inputs.with_namespace(objects, namespace) if namespace else objects
    for sent in placed:
        if sent["kind"] in FOREIGN_KINDS:
            continue
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)


def _pod(name: str, namespace: str, template: Object) -> Object:
    metadata = {**template["metadata"], "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
