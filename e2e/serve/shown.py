"""The services that examples and pages show: which of them run here, and why the others do not."""

from __future__ import annotations

import copy
import functools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Object
from e2e.inputs import ROOT
from e2e.serve.deploy import rendered
from tests.page_blocks import Block, blocks


@dataclass(frozen=True)
class Run:
    """It becomes Ready, and answers.

    Attributes:
        names: Those that it answers beside its model's.
        secrets: Those that a user creates before.
        certificate: Host name of the certificate that a user creates for the engine.
    """

    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    certificate: str = ""


@dataclass(frozen=True)
class Same:
    """Its engines' pods are those of another one."""

    other: str


@dataclass(frozen=True)
class Not:
    """It cannot run here."""

    reason: str


SINGLE = "docs/how-to/single-gpu.md qwen.yaml"
SHORT = "docs/how-to/model-service.md qwen.yaml"
SMALL = "docs/languages.md Pulumi.yaml"
SCALED = "docs/how-to/autoscaling.md qwen.yaml"
PAIR = "docs/how-to/prefill-decode.md pair.yaml"
PLATFORM, MONOLITHIC = "examples/platform-stack", "examples/qwen-monolithic"
ENGINES = "more engines at once than two processors start"
NODES = "`test_nodes.py` runs its launcher with two ranks"

SHOWN: Mapping[str, Run | Same | Not] = {
    "README.md __main__.py": Run(),
    "README.md qwen.yaml": Same(SHORT),
    "docs/alerts.md qwen.yaml": Same(MONOLITHIC),
    "docs/how-to/adopt.md service.yaml": Same(SMALL),
    SCALED: Run(),
    "docs/how-to/canary.md adapter.yaml": Run(names=("support-7", "chat")),
    "docs/how-to/canary.md models.yaml": Not("a gateway that shares requests among pools"),
    "docs/how-to/ask-the-cluster.md platform/__main__.py": Run(),
    "docs/how-to/ci.md before.yaml": Same(SMALL),
    "docs/how-to/gateways.md qwen.yaml": Same(SMALL),
    "docs/how-to/model-service.md app/__main__.py": Run(),
    "docs/how-to/model-service.md own.yaml": Not(
        "vLLM rejects its 16384 tokens: the tiny model has 4096"
    ),
    SHORT: Run(),
    "docs/how-to/migrate.md kserve.yaml": Run(),
    "docs/how-to/migrate.md kthena.yaml": Run(),
    "docs/how-to/migrate.md modelplane.yaml": Not("devices that a DRA driver prepares"),
    "docs/how-to/models.md qwen.yaml": Run(names=("sql",), secrets=("hub",)),
    "docs/how-to/move.md before.yaml": Same(SMALL),
    "docs/how-to/placement.md services.yaml": Not(ENGINES),
    "docs/how-to/policies.md __main__.py": Same(SHORT),
    "docs/how-to/prefill-decode.md app/__main__.py": Not(
        f"with one rank a pod it is that of {PAIR}"
    ),
    PAIR: Run(),
    "docs/how-to/scale-to-zero.md qwen.yaml": Run(),
    "docs/how-to/security.md qwen.yaml": Same(SMALL),
    "docs/how-to/serve-locally.md small.yaml": Run(),
    "docs/how-to/several-nodes.md deepseek.yaml": Not(f"{ENGINES}; {NODES}"),
    SINGLE: Same(PLATFORM),
    "docs/how-to/tls.md direct.yaml": Run(certificate="direct.models.svc"),
    SMALL: Run(),
    "docs/operations.md qwen.yaml": Same(MONOLITHIC),
    "docs/operations.md scaled.yaml": Same(PLATFORM),
    "docs/placement.md services.yaml": Not(ENGINES),
    "docs/rollout.md old.yaml": Not("not tried yet"),
    "examples/deepseek-disagg": Not(ENGINES),
    PLATFORM: Run(),
    MONOLITHIC: Run(),
    "examples/yaml": Same(MONOLITHIC),
    "templates/yaml": Run(),
}
"""Page and title of the block, or folder -> what becomes of it."""

ANSWERS = {"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": 2}
"""The config of programs in YAML."""

GPU, TENSOR = "nvidia.com/gpu", "--tensor-parallel-size"

ISTIO = "DestinationRule"
"""Istio's own kind, by which it speaks TLS to the endpoint picker: nothing here reads it."""

_SERVES = re.compile(
    r"(InferenceService|ModelServing|ModelDeployment)\b.*\b(image|uri|model_service\()", re.DOTALL
)


@functools.cache
def shown_blocks() -> Mapping[str, Block]:
    """The blocks of pages that show a whole service."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [block for page in pages for block in blocks(page)]
    return {
        f"{block.page} {block.title}": block
        for block in found
        if block.language in ("yaml", "python")
        and block.title
        and not block.part_of
        and _SERVES.search(block.text)
    }


def folders() -> list[str]:
    projects = sorted((ROOT / "examples").glob("*/Pulumi.yaml"))
    return [*(f"examples/{path.parent.name}" for path in projects), "templates/yaml"]


@functools.cache
def objects_of(name: str) -> list[Object]:
    block = shown_blocks().get(name)
    if block is None:
        path = ROOT / name
        program = yaml.safe_load((path / "Pulumi.yaml").read_text(encoding="utf-8"))
        return _of_yaml(program) if program["runtime"] == "yaml" else rendered(path)
    if block.title == "Pulumi.yaml":
        return _of_yaml(yaml.safe_load(block.text))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / Path(block.title).name
        file.write_text(block.text, encoding="utf-8")
        if file.suffix == ".yaml":
            return rendered(file)
        project = "name: shown\nruntime: python\n"
        file.with_name("Pulumi.yaml").write_text(project, encoding="utf-8")
        return rendered(file.parent)


def _of_yaml(program: Object) -> list[Object]:
    """The objects of a program in YAML, whose one resource is a service."""
    ((name, resource),) = program["resources"].items()
    text = json.dumps(resource["properties"])
    for key, answer in ANSWERS.items():
        text = text.replace(f'"${{{key}}}"', json.dumps(answer)).replace(f"${{{key}}}", str(answer))
    manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": json.loads(text),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "service.yaml"
        file.write_text(json.dumps(manifest), encoding="utf-8")
        return rendered(file)


def engine_pods(objects: list[Object]) -> list[Any]:
    """The specs of the pods in which engines run, each form once."""
    specs = {json.dumps(_as_text(spec), sort_keys=True) for spec in _specs(objects)}
    return [json.loads(spec) for spec in sorted(specs)]


def _as_text(spec: Any) -> Any:
    """A pod whose quantities are strings, as the API server keeps them; placed anywhere."""
    spec = copy.deepcopy(spec)
    spec.pop("topologySpreadConstraints", None)  # it names the service
    for container in spec["containers"]:
        for amounts in container.get("resources", {}).values():
            if isinstance(amounts, dict):
                amounts.update({name: str(amount) for name, amount in amounts.items()})
    return spec


def without_accelerators(objects: list[Object]) -> list[Object]:
    """Objects whose engines run on one rank of a small machine, without Istio's own.

    The model's files are replaced on the node: see `images.py`.
    """
    objects = copy.deepcopy([item for item in objects if item["kind"] != ISTIO])
    for spec in _specs(objects):
        spec.pop("nodeSelector", None)
        for container in spec["containers"]:
            for amounts in container.get("resources", {}).values():
                for name in ("cpu", "memory"):
                    amounts.pop(name, None)
                if GPU in amounts:
                    amounts[GPU] = "1"
            words = container.get("args") or []
            if TENSOR in words:
                words[words.index(TENSOR) + 1] = "1"
    return objects


def _specs(objects: list[Object]) -> Iterator[Any]:
    for each in objects:
        if each["kind"] == "LeaderWorkerSet":
            template = each["spec"]["leaderWorkerTemplate"]
            for key in ("leaderTemplate", "workerTemplate"):
                if key in template:
                    yield template[key]["spec"]
