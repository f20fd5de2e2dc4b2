"""Prefill/decode pods are accepted and restricted, and their sidecars may do little."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from e2e import checks, inputs
from e2e.disaggregated import RESTRICTED_CONTAINER, disaggregated, lws_named
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.pods import leaders
from e2e.routers import objects_of

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT = Path(__file__).parent.parent
UNPROTECTED = {"kvTransfer": {"sidecar": {"ssrfProtection": False}}}

SERVICES: dict[str, dict[str, Any]] = {
    "single nodes": {},
    "several nodes": {"prefill": {"multinode": {"nodeCount": 2}},
                      "decode": {"multinode": {"nodeCount": 4}}},
    "unprotected": {"decode": UNPROTECTED},
    "events": {"prefill": {"kvEvents": {}}, "decode": {"kvEvents": {}}},
    "ports, probes and memory of one's own": {
        "container": {
            "ports": [{"name": "http", "containerPort": 8000}],
            "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}},
            "volumeMounts": [{"name": "memory", "mountPath": "/dev/shm"}],
        },
        "pod": {"volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]},
    },
    "older picker": {
        "endpointPicker": {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
    },
}  # fmt: skip


@pytest.fixture
def restricted(cluster: Cluster, namespace: str) -> str:
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.patch("v1/Namespace", namespace, {"metadata": {"labels": enforced}})
    return namespace


@pytest.mark.proves("Prefill/decode objects are accepted unchanged")
@pytest.mark.parametrize("name", SERVICES)
def test_every_form_is_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    _assert_accepted(cluster, objects_of(disaggregated(namespace, **SERVICES[name])))


@pytest.mark.proves("Prefill/decode objects are accepted unchanged")
@pytest.mark.parametrize("source", ["multinode", "deepseek-disagg"])
def test_whole_services_are_accepted(cluster: Cluster, namespace: str, source: str) -> None:
    if source == "multinode":
        plan = inputs.plan_of(ROOT / "tests" / "pods" / "multinode.yaml")
        objects = inputs.objects_of(plan)
    else:
        objects = inputs.example_objects(source)
    _assert_accepted(cluster, inputs.with_namespace(objects, namespace))


@pytest.mark.proves("Sidecars pass the restricted Pod Security profile")
@pytest.mark.parametrize("name", ["single nodes", "unprotected"])
def test_sidecars_are_restricted(cluster: Cluster, restricted: str, name: str) -> None:
    given = {**SERVICES[name], "container": RESTRICTED_CONTAINER}
    objects = objects_of(disaggregated(restricted, **given))
    cluster.add_nodes(1)
    cluster.apply([manifest for manifest in objects if manifest["kind"] != "Deployment"])
    pods = cluster.wait(
        lambda: found if len(found := leaders(cluster, restricted)) == 4 else [],
        60,
        lambda: cluster.list("v1/Event", restricted),
    )
    for pod in pods:
        inits = pod["spec"].get("initContainers") or []
        decode = pod["metadata"]["labels"]["llm-d.ai/role"] == "decode"
        assert [init["name"] for init in inits] == ["pd-sidecar"] * decode
        if decode:
            _assert_token_is_the_sidecars(pod, uses_one=name != "unprotected")


def test_the_restricted_namespace_does_refuse_a_weaker_sidecar(
    cluster: Cluster, restricted: str
) -> None:
    objects = objects_of(disaggregated(restricted, container=RESTRICTED_CONTAINER))
    cluster.apply(
        [manifest for manifest in objects if manifest["metadata"]["name"] == "svc-sidecar"]
    )
    template = lws_named(objects, "decode")["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    cluster.create(_pod("decode", restricted, template))
    weaker = copy.deepcopy(template)
    del weaker["spec"]["initContainers"][0]["securityContext"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.create(_pod("weaker", restricted, weaker))


@pytest.mark.proves("The sidecars' account reads only pools and pods")
def test_the_sidecars_account_holds_only_the_generated_role(
    cluster: Cluster, namespace: str
) -> None:
    objects = objects_of(disaggregated(namespace))
    cluster.apply(
        [manifest for manifest in objects if manifest["metadata"]["name"] == "svc-sidecar"]
    )
    client = cluster.client_for(f"system:serviceaccount:{namespace}:svc-sidecar")
    assert client.list("v1/Pod", namespace) == []
    assert client.list("inference.networking.k8s.io/v1/InferencePool", namespace) == []
    for kind, where in (("v1/Secret", namespace), ("v1/Pod", "default")):
        with pytest.raises(ApiError) as refused:
            client.list(kind, where)
        assert refused.value.status == 403


def _assert_accepted(cluster: Cluster, objects: list[Object]) -> None:
    for sent in objects:
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)


def _assert_token_is_the_sidecars(pod: Object, *, uses_one: bool) -> None:
    """The token is where it is used, and nowhere else."""
    (sidecar,) = pod["spec"]["initContainers"]
    (engine,) = pod["spec"]["containers"]
    mounted = [
        mount["name"] for mount in sidecar["volumeMounts"] if mount["mountPath"] == TOKEN_PATH
    ]
    assert mounted == ["sidecar-token" if uses_one else "no-token"]
    tokens = [mount for mount in engine["volumeMounts"] if mount["mountPath"] == TOKEN_PATH]
    assert len(tokens) == (0 if uses_one else 1)


def _pod(name: str, namespace: str, template: Object) -> Object:
    metadata = {**template["metadata"], "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
