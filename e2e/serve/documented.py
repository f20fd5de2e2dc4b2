"""Services in examples and pages, and which of them can run here."""

from __future__ import annotations

import copy
import functools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Object
from e2e.inputs import ROOT
from e2e.serve.deploy import render_file
from tests.page_blocks import Block, blocks


@dataclass(frozen=True)
class Runs:
    """A service that becomes ready and serves requests.

    Attributes:
        names: Additional served model names.
        secrets: Secrets that must exist.
        certificate: Host name of the engine's certificate, whose Secret must exist.
    """

    names: Sequence[str] = ()
    secrets: Sequence[str] = ()
    certificate: str = ""


@dataclass(frozen=True)
class SamePods:
    """A service with the same engine pods as another one."""

    other: str


@dataclass(frozen=True)
class CannotRun:
    """A service that cannot run here."""

    reason: str


def _read_services() -> dict[str, Runs | SamePods | CannotRun]:
    rows = yaml.safe_load(Path(__file__).with_name("documented.yaml").read_text(encoding="utf-8"))
    return {name: _parse_row(row) for name, row in rows.items()}


def _parse_row(row: Object) -> Runs | SamePods | CannotRun:
    if "same" in row:
        return SamePods(row["same"])
    return CannotRun(row["not"]) if "not" in row else Runs(**row)


SERVICES: Mapping[str, Runs | SamePods | CannotRun] = _read_services()
"""Services by page and block title, or by folder."""

STACK_CONFIG = {"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": 2}
"""Stack configuration of YAML programs."""

GPU, TENSOR = "nvidia.com/gpu", "--tensor-parallel-size"

ISTIO = "DestinationRule"
"""Istio's TLS settings for the endpoint picker, which nothing here reads."""

_SERVICE_TEXT = re.compile(
    r"(InferenceService|ModelServing|ModelDeployment)\b.*\b(image|uri|model_service\()", re.DOTALL
)


@functools.cache
def find_blocks() -> Mapping[str, Block]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    all_blocks = [block for page in pages for block in blocks(page)]
    return {
        f"{block.page} {block.title}": block
        for block in all_blocks
        if block.language in ("yaml", "python")
        and block.title
        and not block.part_of
        and _SERVICE_TEXT.search(block.text)
    }


def list_folders() -> list[str]:
    projects = sorted((ROOT / "examples").glob("*/Pulumi.yaml"))
    return [*(f"examples/{path.parent.name}" for path in projects), "templates/yaml"]


@functools.cache
def render_objects(name: str) -> list[Object]:
    block = find_blocks().get(name)
    if block is None:
        path = ROOT / name
        program = yaml.safe_load((path / "Pulumi.yaml").read_text(encoding="utf-8"))
        return _render_yaml_program(program) if program["runtime"] == "yaml" else render_file(path)
    if block.title == "Pulumi.yaml":
        return _render_yaml_program(yaml.safe_load(block.text))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / Path(block.title).name
        file.write_text(block.text, encoding="utf-8")
        if file.suffix == ".yaml":
            return render_file(file)
        project = "name: shown\nruntime: python\n"
        file.with_name("Pulumi.yaml").write_text(project, encoding="utf-8")
        return render_file(file.parent)


def _render_yaml_program(program: Object) -> list[Object]:
    """Return the objects of a YAML program whose only resource is a service."""
    ((name, resource),) = program["resources"].items()
    text = json.dumps(resource["properties"])
    for key, value in STACK_CONFIG.items():
        text = text.replace(f'"${{{key}}}"', json.dumps(value)).replace(f"${{{key}}}", str(value))
    manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": json.loads(text),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "service.yaml"
        file.write_text(json.dumps(manifest), encoding="utf-8")
        return render_file(file)


def list_pods(objects: list[Object]) -> list[Any]:
    """Return the distinct pod specs of engines."""
    specs = {json.dumps(_normalize(spec), sort_keys=True) for spec in _find_pod_specs(objects)}
    return [json.loads(spec) for spec in sorted(specs)]


def _normalize(spec: Any) -> Any:
    """Return a pod spec with quantities as strings and without topology spread."""
    spec = copy.deepcopy(spec)
    spec.pop("topologySpreadConstraints", None)  # Contains the service's name.
    for container in spec["containers"]:
        for amounts in container.get("resources", {}).values():
            if isinstance(amounts, dict):
                amounts.update({name: str(amount) for name, amount in amounts.items()})
    return spec


def fit_to_cpus(objects: list[Object]) -> list[Object]:
    """Return objects whose engines have one rank and fit a small machine.

    `images.py` replaces the model's files on the node. A claim becomes a GPU of the node's status,
    because no DRA driver runs here; the claim templates stay.
    """
    objects = copy.deepcopy([item for item in objects if item["kind"] != ISTIO])
    for spec in _find_pod_specs(objects):
        spec.pop("nodeSelector", None)
        spec.pop("resourceClaims", None)
        for container in spec["containers"]:
            resources = container.get("resources", {})
            if resources.pop("claims", None):
                resources.setdefault("limits", {})[GPU] = "1"
            for amounts in resources.values():
                for name in ("cpu", "memory"):
                    amounts.pop(name, None)
                if GPU in amounts:
                    amounts[GPU] = "1"
            words = container.get("args") or []
            if TENSOR in words:
                words[words.index(TENSOR) + 1] = "1"
    return objects


def _find_pod_specs(objects: list[Object]) -> Iterator[Any]:
    for item in objects:
        if item["kind"] == "LeaderWorkerSet":
            template = item["spec"]["leaderWorkerTemplate"]
            for key in ("leaderTemplate", "workerTemplate"):
                if key in template:
                    yield template[key]["spec"]
