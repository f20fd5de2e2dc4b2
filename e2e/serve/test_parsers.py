"""Serves: vLLM's own parser takes the command lines that `check` accepts."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Object
from e2e.inputs import ROOT
from e2e.serve.engine import VLLM, Vllm, vllm
from fusioninfer_pulumi import InvalidServiceError, load, plan_service, render
from fusioninfer_pulumi.engines.command import read_command

# In `tests`, which pytest puts on the path.
draw_service: Any = importlib.import_module("drawn_services").draw_service

RELEASES = [VLLM]
DRAWN = 300
GOLDENS = ROOT / "tests" / "fixtures" / "golden"


def containers(value: Any) -> Iterator[Object]:
    """Every container anywhere in some objects."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("containers", "initContainers") and isinstance(inner, list):
                yield from inner
            yield from containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from containers(inner)


def arguments(objects: Any, release: str) -> set[tuple[str, ...]]:
    """The arguments with which vLLM of a release is started."""
    found = set()
    for container in containers(objects):
        command = read_command(container)
        is_vllm = command.engine is not None and command.engine.name == "vllm"
        if is_vllm and command.readable and command.image.version == version(release):
            found.add(command.arguments)
    return found


def version(release: str) -> tuple[int, ...]:
    """A release as numbers."""
    return tuple(map(int, release.split(".")))


def moved(manifest: Any, release: str) -> Any:
    """A manifest whose images of vLLM are all of one release."""
    if isinstance(manifest, dict):
        return {key: moved(value, release) for key, value in manifest.items()}
    if isinstance(manifest, list):
        return [moved(each, release) for each in manifest]
    if isinstance(manifest, str) and manifest.startswith("vllm/vllm-openai:"):
        return f"vllm/vllm-openai:v{release}"
    return manifest


def drawn(release: str) -> set[tuple[str, ...]]:
    """Command lines of drawn services that are accepted."""
    found: set[tuple[str, ...]] = set()
    for seed in range(DRAWN):
        for document in moved(draw_service(seed).documents, release):
            try:
                (args,) = load(document)
                found |= arguments(list(render(plan_service(args))), release)
            except InvalidServiceError:
                continue
    return found


def golden(release: str) -> set[tuple[str, ...]]:
    """Command lines of golden files, those of the release."""
    found: set[tuple[str, ...]] = set()
    for file in sorted(GOLDENS.rglob("*.yaml")):
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        found |= arguments(documents, release)
    return found


def refused(engine: Vllm, lines: list[tuple[str, ...]]) -> list[str]:
    """What the engine says of those that it does not take."""
    program = Path(__file__).with_name("parse_arguments.py")
    told = subprocess.run(
        [str(engine.python), str(program)],
        input=json.dumps(lines), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    errors = json.loads(told.splitlines()[-1])
    return [
        f"{' '.join(line)}: {error}" for line, error in zip(lines, errors, strict=True) if error
    ]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.proves(
    "what `check` accepts, vLLM's own parser accepts: the command lines of golden files and of "
    "300 drawn services, with installed releases",
    needs="`python -m e2e.serve.engine` has installed them",
)
def test_accepted_command_lines_are_parsed(release: str) -> None:
    engine = vllm(release)
    if not engine.is_installed:
        pytest.skip(f"not installed: python -m e2e.serve.engine --vllm {release}")
    lines = sorted(drawn(release) | golden(release))
    assert len(lines) > 100
    assert refused(engine, lines) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_wrong_argument_is_refused(release: str) -> None:
    engine = vllm(release)
    if not engine.is_installed:
        pytest.skip(f"not installed: python -m e2e.serve.engine --vllm {release}")
    assert len(refused(engine, [("--model", "m", "--max-model-length", "1")])) == 1
