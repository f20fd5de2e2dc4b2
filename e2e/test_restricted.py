"""Endpoint pickers and sidecars in namespaces with the restricted Pod Security profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from e2e.harness import ApiError, Cluster, Object
from e2e.harness.pods import leaders
from e2e.routers import find_object, make_disaggregated, make_routed, render_objects

FIELDS: Object = yaml.safe_load(
    Path(__file__).with_name("restricted.yaml").read_text(encoding="utf-8")
)
ROUTERS: dict[str, Object] = FIELDS["routers"]
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def restricted(cluster: Cluster, namespace: str) -> str:
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.patch("v1/Namespace", namespace, {"metadata": {"labels": enforced}})
    return namespace


@pytest.mark.verifies("Picker pods pass the restricted Pod Security profile")
@pytest.mark.parametrize("name", ROUTERS)
def test_picker_pods_pass_restricted_profile(cluster: Cluster, restricted: str, name: str) -> None:
    objects = render_objects(make_routed(restricted, **ROUTERS[name]))
    deployment = find_object(objects, "Deployment")
    routing = [manifest for manifest in objects if manifest["kind"] != "LeaderWorkerSet"]
    cluster.apply(routing)
    wanted = deployment["spec"]["replicas"]
    pods = cluster.wait(
        lambda: listed if len(listed := cluster.pods(restricted)) == wanted else [],
        message=lambda: cluster.list("v1/Event", restricted),
    )
    labels = deployment["spec"]["selector"]["matchLabels"]
    for pod in pods:
        assert labels.items() <= pod["metadata"]["labels"].items()
        tokens = [v for v in pod["spec"]["volumes"] if v["name"].startswith("kube-api-access")]
        assert len(tokens) == 1, "the picker needs one token for the API server"


@pytest.mark.verifies("Sidecars pass the restricted Pod Security profile")
@pytest.mark.parametrize("protected", [True, False])
def test_sidecars_pass_restricted_profile(
    cluster: Cluster, restricted: str, *, protected: bool
) -> None:
    decode = {"kvTransfer": {"sidecar": {"ssrfProtection": protected}}}
    objects = render_objects(
        make_disaggregated(restricted, decode=decode, container=FIELDS["container"])
    )
    cluster.add_nodes(1)
    cluster.apply([manifest for manifest in objects if manifest["kind"] != "Deployment"])
    pods = cluster.wait(
        lambda: listed if len(listed := leaders(cluster, restricted)) == 4 else [],
        60,
        lambda: cluster.list("v1/Event", restricted),
    )
    for pod in pods:
        inits = pod["spec"].get("initContainers") or []
        decodes = pod["metadata"]["labels"]["llm-d.ai/role"] == "decode"
        assert [init["name"] for init in inits] == ["pd-sidecar"] * decodes
        if decodes:
            _assert_token_of_sidecar(pod, uses_one=protected)


@pytest.mark.verifies("The sidecars' account reads only pools and pods")
def test_sidecar_account_reads_only_pools_and_pods(cluster: Cluster, namespace: str) -> None:
    objects = render_objects(make_disaggregated(namespace))
    cluster.apply(
        [manifest for manifest in objects if manifest["metadata"]["name"] == "svc-sidecar"]
    )
    client = cluster.client_for(f"system:serviceaccount:{namespace}:svc-sidecar")
    assert client.list("v1/Pod", namespace) == []
    assert client.list("inference.networking.k8s.io/v1/InferencePool", namespace) == []
    for kind, where in (("v1/Secret", namespace), ("v1/Pod", "default")):
        with pytest.raises(ApiError) as rejected:
            client.list(kind, where)
        assert rejected.value.status == 403


def _assert_token_of_sidecar(pod: Object, *, uses_one: bool) -> None:
    (sidecar,) = pod["spec"]["initContainers"]
    (engine,) = pod["spec"]["containers"]
    mounted = [
        mount["name"] for mount in sidecar["volumeMounts"] if mount["mountPath"] == TOKEN_PATH
    ]
    assert mounted == ["sidecar-token" if uses_one else "no-token"]
    tokens = [mount for mount in engine["volumeMounts"] if mount["mountPath"] == TOKEN_PATH]
    assert len(tokens) == (0 if uses_one else 1)
