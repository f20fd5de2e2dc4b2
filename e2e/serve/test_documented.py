"""Services of examples and pages, with the tiny model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.harness import Object
from e2e.harness.certificates import Certificates, create_certificates
from e2e.routers import KIND, install_llm_d_kind
from e2e.serve.deploy import find_model_name, wait_serving
from e2e.serve.documented import (
    SERVICES,
    CannotRun,
    Runs,
    SamePods,
    find_blocks,
    fit_to_cpus,
    list_folders,
    list_pods,
    render_objects,
)
from e2e.serve.engine import Models
from e2e.serve.gateway import Gateway
from e2e.serve.hub import PORT, Hub
from e2e.serve.images import LLM_D, list_images
from e2e.serve.load import complete
from e2e.serve.sandbox import ADDRESS
from e2e.serve.services import secret
from e2e.serve.serving import Serving

RUNNING = {name: service for name, service in SERVICES.items() if isinstance(service, Runs)}
SAME = {name: service.other for name, service in SERVICES.items() if isinstance(service, SamePods)}


def test_all_documented_services_are_listed() -> None:
    assert sorted(SERVICES) == sorted([*find_blocks(), *list_folders()])
    assert all(service.reason for service in SERVICES.values() if isinstance(service, CannotRun))


@pytest.mark.parametrize("name", SAME)
def test_same_pods_belong_to_running_service(name: str) -> None:
    assert SAME[name] in RUNNING
    assert list_pods(render_objects(name)) == list_pods(render_objects(SAME[name]))


@pytest.mark.serve
@pytest.mark.long
@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.verifies("Services of examples and pages serve, with small models and no GPUs")
def test_documented_services_answer(running: Serving, name: str) -> None:
    service = RUNNING[name]
    objects = fit_to_cpus(render_objects(name))
    if missing := list_missing_programs(objects):
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    with ExitStack() as stack:
        stack.enter_context(Hub(ADDRESS, "Qwen/Qwen3-8B", Models().model, PORT))
        namespace = ensure_namespace(running, objects)
        certificates = None
        if service.certificate:
            certificates = create_certificates(Path(os.environ["TMPDIR"]) / "shown",
                                               hosts=[service.certificate])  # fmt: skip
        if any(item["kind"] == KIND for item in objects):
            stack.enter_context(install_llm_d_kind(running.cluster))
        needed = make_secrets(namespace, service, certificates)
        stack.enter_context(deploy(running, [*needed, *objects], namespace))
        wait_serving(running, objects, namespace)
        host = service.certificate
        if routes := [item for item in objects if item["kind"] == "HTTPRoute"]:
            gateway = Gateway(running.cluster, namespace, routes[0]["metadata"]["name"])
            stack.callback(gateway.close)
            url, host = gateway.url, gateway.host
        else:
            url = find_service_url(running, objects, namespace, "https" if host else "http")
        authority = certificates.authority if certificates else None
        for model in (find_model_name(objects), *service.names):
            prompt = "the quick brown fox"
            answer = complete(url, model, prompt, host=host, authority=authority)
            assert answer["usage"]["completion_tokens"] == 8
            assert answer["model"] == model


def list_missing_programs(objects: list[Object]) -> list[str]:
    images = list_images(objects)
    needed = {file for ending, file in LLM_D.items() if any(ending in image for image in images)}
    return sorted(file for file in needed if shutil.which(file) is None)


def ensure_namespace(running: Serving, objects: list[Object]) -> str:
    cluster = running.cluster
    (namespace,) = {item["metadata"].get("namespace") for item in objects} - {None}
    if not cluster.exists("v1/Namespace", namespace):
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        cluster.wait(lambda: cluster.exists("v1/ServiceAccount", "default", namespace))
    return str(namespace)


def make_secrets(namespace: str, service: Runs, certificates: Certificates | None) -> list[Object]:
    listed = [secret(namespace, name, token="hf_none") for name in service.secrets]
    if certificates is not None:
        name = f"{service.certificate.partition('.')[0]}-tls"
        listed.append(secret(namespace, name, **certificates.texts))
    return listed


@contextmanager
def deploy(running: Serving, objects: list[Object], namespace: str) -> Iterator[None]:
    kinds = [f"{item['apiVersion']}/{item['kind']}" for item in objects]
    assert all(map(running.cluster.resource, kinds))
    try:
        running.apply(objects, namespace)
        yield
    finally:
        for kind, item in zip(reversed(kinds), reversed(objects), strict=True):
            running.cluster.delete(kind, item["metadata"]["name"], namespace)
        running.cluster.wait(lambda: delete_pods(running, namespace), 60)


def delete_pods(running: Serving, namespace: str) -> bool:
    """Delete the pods of a namespace without grace period; return whether none existed."""
    pods = running.cluster.pods(namespace)
    for pod in pods:
        running.cluster.delete("v1/Pod", pod["metadata"]["name"], namespace, now=True)
    return not pods


def find_service_url(running: Serving, objects: list[Object], namespace: str, scheme: str) -> str:
    (name,) = (item["metadata"]["name"] for item in objects if item["kind"] == "Service")
    spec = running.cluster.get("v1/Service", name, namespace)["spec"]
    return f"{scheme}://{spec['clusterIP']}:{spec['ports'][0]['port']}"
