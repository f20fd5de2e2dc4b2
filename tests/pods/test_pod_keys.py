"""Keys of pods that Kubernetes does not know are told of where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client
from samples import container, nodes, pod, problems, role, service, template, warnings

from fusioninfer_pulumi.pods.template_keys import KEYS

POD = "roles[0].template.spec"
SERVING = f"{POD}.containers[0]"
LOST = "API server refuses it, or drops it"


@pytest.mark.parametrize(
    ("manifest", "path", "said"),
    [
        (pod(container(resuorces={"limits": {"nvidia.com/gpu": 8}})), f"{SERVING}.resuorces",
         "a container, did you mean resources? The"),
        (pod(container(resource={})), f"{SERVING}.resource",
         "a container, did you mean resources? The"),
        (pod(container(resources={"limit": {"cpu": 1}})), f"{SERVING}.resources.limit",
         "resources, did you mean limits? The"),
        (pod(container(resources={"nvidia.com/gpu": 8})), f"{SERVING}.resources[nvidia.com/gpu]",
         "resources: the"),
        (pod(nodeSelectors={"a": "b"}), f"{POD}.nodeSelectors",
         "a pod's spec, did you mean nodeSelector? The"),
        (pod(node_selector={"a": "b"}), f"{POD}.node_selector",
         "a pod's spec, did you mean nodeSelector? The"),
        (pod(resources={"x-y": 1}), f"{POD}.resources.x-y", "resources: the"),
        (pod(tolerations=[{"keys": "a", "operator": "Exists"}]), f"{POD}.tolerations[0].keys",
         "a toleration, did you mean key? The"),
        (pod(initContainers=[container("first", comand=["true"])]),
         f"{POD}.initContainers[0].comand", "a container, did you mean command? The"),
        (pod(container(env=[{"name": "A", "vale": "b"}])), f"{SERVING}.env[0].vale",
         "a variable, did you mean value? The"),
        (pod(container(ports=[{"containerPort": 8000, "hostport": 1}])),
         f"{SERVING}.ports[0].hostport", "a container port, did you mean hostPort? The"),
        (pod(container(volumeMounts=[{"name": "a", "mountPath": "/b", "path": "/a"}]),
             volumes=[{"name": "a"}]),
         f"{SERVING}.volumeMounts[0].path", "a volume mount, did you mean subPath? The"),
        (pod(container(readinessProbe={"http": {}})), f"{SERVING}.readinessProbe.http",
         "a probe, did you mean httpGet? The"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_a_warning(manifest: Any, path: str, said: str) -> None:
    assert problems(manifest) == []
    assert warnings(manifest) == [f"warning: {path}: unknown key of {said} {LOST}"]


def test_every_template_and_every_resources_is_looked_at() -> None:
    wrong = template(container(resource={}))
    two = role(template=None, leaderTemplate=wrong, workerTemplate=wrong, multinode=nodes(2))
    model = {"uri": "s3://a/b", "fetcher": {"resources": {"limit": {}}}}
    sidecar = {"kvTransfer": {"sidecar": {"resources": {"limit": {}}}}}
    plain = template(container(args=[]))
    others = role("decode", "decoder", template=plain, **sidecar)
    picker = role("router", "router", template=None,
                  endpointPicker={"resources": {"limit": {}}})  # fmt: skip
    said = [each.split(":")[1] for each in warnings(service(two, others, picker, model=model))
            if "unknown key" in each]  # fmt: skip
    assert said == [
        " roles[0].leaderTemplate.spec.containers[0].resource",
        " roles[0].workerTemplate.spec.containers[0].resource",
        " roles[1].kvTransfer.sidecar.resources.limit",
        " roles[2].endpointPicker.resources.limit",
        " model.fetcher.resources.limit",
    ]


@pytest.mark.parametrize("kind", KEYS)
def test_the_table_holds_what_the_official_client_knows(kind: str) -> None:
    """Also an older client's: keys that are gone are no typing errors."""
    assert set(getattr(client, f"V1{kind}").attribute_map.values()) <= KEYS[kind]
