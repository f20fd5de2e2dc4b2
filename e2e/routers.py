"""Services with a router, and their endpoint pickers."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.components import read_definitions
from e2e.harness.control_plane import PROGRAMS
from e2e.harness.pods import LEADERS
from e2e.harness.resources import read_objects

IMAGES = {
    "1.2": "registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1",
    "1.5": "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
}


@dataclass(frozen=True)
class Picker:
    """A release of the endpoint picker."""

    image: str
    tool: str | None = None

    def find_executable(self) -> Path | None:
        """Return the program on PATH, for pickers that are not in the tool catalog."""
        path = None if self.tool is not None else shutil.which("llm-d-epp")
        return None if path is None else Path(path)


PICKERS = {
    **{version: Picker(image, version) for version, image in IMAGES.items()},
    "llm-d": Picker("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"),
}

NEEDS_LLM_D = pytest.mark.skipif(
    shutil.which("llm-d-epp") is None, reason="llm-d-epp is not on PATH"
)


def picker_versions(claim: str, *versions: str) -> pytest.MarkDecorator:
    """Parametrize a test with pickers. llm-d's may be missing, so it has a separate claim."""
    return pytest.mark.parametrize(
        "version",
        [
            pytest.param(version, marks=pytest.mark.verifies(claim))
            if PICKERS[version].tool
            else pytest.param(version, marks=[NEEDS_LLM_D, pytest.mark.verifies(
                f"{claim}, with llm-d's picker", needs="llm-d-epp is on PATH")])
            for version in versions or PICKERS
        ],
    )  # fmt: skip


def make_routed(namespace: str, name: str = "svc", **router: Any) -> Object:
    """Return a service with a router and two single-node replicas."""
    (service,) = read_objects("routed service", namespace=namespace, name=name)
    service["spec"]["roles"][0] |= copy.deepcopy(router)
    return service


def render_objects(manifest: Object) -> list[Object]:
    return inputs.render_objects(inputs.build_plan(manifest))


def find_object(objects: Sequence[Object], kind: str) -> Object:
    (match,) = [manifest for manifest in objects if manifest["kind"] == kind]
    return match


def make_picker(
    cluster: Cluster, version: str, objects: Sequence[Object], *, plain: bool = False
) -> EndpointPicker:
    """Return a picker with the generated configuration, flags and ServiceAccount.

    The harness chooses ports and the path of the configuration. `plain` disables TLS.
    """
    deployment, pool = find_object(objects, "Deployment"), find_object(objects, "InferencePool")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == PICKERS[version].image
    (config,) = find_object(objects, "ConfigMap")["data"].values()
    omitted = [flag.partition("=")[0] for flag in PROGRAMS["epp"]]
    omitted += ["--secure-serving", "--cert-path"] if plain else []
    return EndpointPicker(
        cluster,
        version=version,
        namespace=pool["metadata"]["namespace"],
        pool=pool["metadata"]["name"],
        account=spec["serviceAccountName"],
        config=config,
        flags=[flag for flag in container["args"] if flag.partition("=")[0] not in omitted],
        executable=PICKERS[version].find_executable(),
    )


KIND, OBJECTIVE = "InferenceModelRewrite", "InferenceObjective"


@contextmanager
def install_llm_d_kind(cluster: Cluster, kind: str = KIND) -> Iterator[None]:
    """Install llm-d's kind until the context ends.

    llm-d is not in the tool catalog. Its definition (v0.10.0 `config/crd/bases`) differs from the
    inference extension's only by its group.
    """
    definitions = read_definitions("lws-0.9")
    (definition,) = [crd for crd in definitions if crd["spec"]["names"]["kind"] == kind]
    name = f"{definition['spec']['names']['plural']}.llm-d.ai"
    spec = {**definition["spec"], "group": "llm-d.ai"}
    cluster.install_kinds([{**definition, "metadata": {"name": name}, "spec": spec}])
    try:
        yield
    finally:
        cluster.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", name)


def make_disaggregated(
    namespace: str,
    *,
    prefill: dict[str, Any] | None = None,
    decode: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    **router: Any,
) -> Object:
    """Return a service with two prefill and two decode replicas that are not gang-scheduled."""
    (service,) = read_objects("disaggregated service", namespace=namespace)
    roles = service["spec"]["roles"]
    for role in roles[1:]:
        role["template"]["spec"]["containers"][0] |= copy.deepcopy(container or {})
    for index, fields in enumerate((router, prefill, decode)):
        roles[index] |= copy.deepcopy(fields or {})
    return service


def find_lws(objects: list[Object], role: str) -> Object:
    return next(
        manifest
        for manifest in objects
        if manifest["kind"] == "LeaderWorkerSet"
        and manifest["metadata"]["labels"]["fusioninfer.io/role-name"] == role
    )


def wait_for_leaders(cluster: Cluster, namespace: str, count: int) -> None:
    cluster.wait(
        lambda: len(cluster.ready_pods(namespace, LEADERS)) == count,
        60,
        lambda: cluster.pods(namespace),
    )


def deploy(cluster: Cluster, namespace: str, manifest: Object, *, leading: int) -> list[Object]:
    """Apply a service without its picker, which runs outside the cluster; return its objects."""
    objects = render_objects(manifest)
    cluster.add_nodes(1)
    cluster.apply([item for item in objects if item["kind"] != "Deployment"])
    wait_for_leaders(cluster, namespace, leading)
    return objects
