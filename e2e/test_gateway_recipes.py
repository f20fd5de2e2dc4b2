"""Dry runs of the objects on the how-to pages on security, with the gateways' CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import checks, inputs
from e2e.catalog import manifests, tool
from e2e.harness import ApiError, Cluster, Object
from e2e.inputs import read_page_objects
from fusioninfer_pulumi import load, plan_service, render

CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"

GATEWAYS: dict[str, dict[str, list[str]]] = yaml.safe_load(
    Path(__file__).with_name("gateways.yaml").read_text(encoding="utf-8")
)


def render_service(implementation: str) -> list[Object]:
    (service,) = read_page_objects("qwen.yaml")
    service["spec"]["roles"][0]["gateway"]["implementation"] = implementation
    (args,) = load(service)
    return list(render(plan_service(args)))


@pytest.fixture(scope="module")
def kinds(cluster: Cluster) -> Iterator[None]:
    crds = [
        crd
        for name, gateway in GATEWAYS.items()
        if tool(name).is_built
        for path in manifests(name, "crds")
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if crd and crd["spec"]["names"]["kind"] in gateway["kinds"]
    ]
    cluster.install_kinds(crds)

    def is_served() -> bool:
        try:
            for crd in crds:
                cluster.list(crd["spec"]["names"]["kind"])
        except (ApiError, LookupError):  # Discovery and storage are not ready yet.
            return False
        return True

    cluster.wait(is_served, 60)
    yield
    for crd in crds:
        cluster.delete(CRD, crd["metadata"]["name"])


def list_cases() -> Iterator[Any]:
    """Yield the files of the pages, and Istio's rendered DestinationRule."""
    rows = [
        (file, name, "the security pages' objects")
        for name, gateway in GATEWAYS.items()
        for file in gateway["files"]
    ]
    for file, name, what in [*rows, ("", "istio", "the rendered DestinationRule")]:
        verifies = pytest.mark.verifies(
            f"The API server accepts {what} for {name} unchanged", needs=f"{name} is built"
        )
        reason = f"not built: python -m e2e.build_tools --only {name}"
        yield pytest.param(
            file, name, marks=[verifies, pytest.mark.skipif(not tool(name).is_built, reason=reason)]
        )


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(("file", "name"), list(list_cases()))
def test_objects_for_gateways_are_accepted(
    cluster: Cluster, namespace: str, file: str, name: str
) -> None:
    objects = read_page_objects(file) if file else render_service(name)
    sent = [manifest for manifest in objects if file or manifest["kind"] == "DestinationRule"]
    assert sent
    for manifest in inputs.with_namespace(sent, namespace):
        (stored,) = cluster.apply([manifest], dry_run=True)
        checks.assert_stored_unchanged(manifest, stored)
