"""Serves: vLLM's own parser takes the command lines that `check` accepts."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Object
from e2e.inputs import ROOT
from e2e.serve.engine import VLLM, Vllm, vllm
from e2e.serve.services import NEED
from fusioninfer_pulumi import (
    InvalidServiceError,
    load,
    model_service,
    plan_service,
    render,
)
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.presets.catalogue import catalogue

# In `tests`, which pytest puts on the path.
draw_service: Any = importlib.import_module("drawn_services").draw_service

pytestmark = [pytest.mark.serve, pytest.mark.long]

RELEASES = [VLLM]
DRAWN = 300
VARIABLE = re.compile(r"\$\(\([^)]*\)\)|\$\(\w+\)|\$\{\w+\}|\$\w+")


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
        if is_vllm and command.readable and command.image.release == release:
            found.add(tuple(expanded(command.arguments)))
    return found


def expanded(words: Sequence[str]) -> Iterator[str]:
    """Arguments as the engine sees them: with values of variables, and without files."""
    skipped = False
    for word in words:
        if not skipped and word != "--config":
            yield VARIABLE.sub("1", word)
        skipped = word == "--config"


def moved(manifest: Any, release: str) -> Any:
    """A manifest whose images of vLLM are all of one release."""
    if isinstance(manifest, dict):
        return {key: moved(value, release) for key, value in manifest.items()}
    if isinstance(manifest, list):
        return [moved(each, release) for each in manifest]
    if isinstance(manifest, str) and manifest.startswith("vllm/vllm-openai:"):
        return f"vllm/vllm-openai:v{release}"
    return manifest


def accepted(documents: Iterable[Any], release: str) -> set[tuple[str, ...]]:
    """Command lines of those services that are accepted with this release."""
    found: set[tuple[str, ...]] = set()
    for document in moved(list(documents), release):
        try:
            (args,) = load(document)
            found |= arguments(list(render(plan_service(args))), release)
        except InvalidServiceError:
            continue
    return found


def written() -> Iterator[Any]:
    """The services of the examples, and those that golden files are made of."""
    for folder in ("examples", "tests"):
        for file in sorted((ROOT / folder).rglob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            if "\nkind: InferenceService\n" in text:
                documents = yaml.safe_load_all(text)
                yield from (d for d in documents if d and d.get("kind") == "InferenceService")


def refused(engine: Vllm, lines: list[tuple[str, ...]]) -> list[str]:
    """What the engine says of those that it does not take."""
    program = Path(__file__).with_name("parse_arguments.py")
    told = subprocess.run(
        [str(engine.python), "-P", str(program)],
        input=json.dumps(lines), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    errors = json.loads(told.splitlines()[-1])
    return [
        f"{' '.join(line)}: {error}" for line, error in zip(lines, errors, strict=True) if error
    ]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.proves(
    "what `check` accepts, the parser of vLLM 0.32.0 accepts: command lines of the examples, of "
    "the services behind golden files, and of 300 drawn ones",
    needs=NEED,
)
def test_accepted_command_lines_are_parsed(release: str) -> None:
    engine = vllm(release)
    drawn = [document for seed in range(DRAWN) for document in draw_service(seed).documents]
    lines = sorted(accepted([*written(), *drawn], release))
    assert len(lines) > 100
    assert refused(engine, lines) == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.proves(
    "the parser of vLLM 0.32.0 accepts the arguments of every model of the catalogue, on each of "
    "its GPUs and on processors",
    needs=NEED,
)
def test_the_arguments_of_the_catalogue_are_parsed(release: str) -> None:
    engine = vllm(release)
    lines = set()
    for name, model in catalogue().items():
        for accelerator in (*model.accelerators, "cpu"):
            args = model_service(name, accelerator=accelerator, name="chat", engine=release)
            lines |= arguments(list(render(plan_service(args))), release)
    assert len(lines) > len(catalogue())
    assert refused(engine, sorted(lines)) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_wrong_argument_is_refused(release: str) -> None:
    engine = vllm(release)
    assert len(refused(engine, [("--model", "m", "--max-model-length", "1")])) == 1
