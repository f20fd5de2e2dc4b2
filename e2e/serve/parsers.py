"""Argument parsers of vLLM releases, and command lines to test them with."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.inputs import ROOT
from e2e.serve.engine import Vllm
from e2e.serve.images import find_containers
from fusioninfer_pulumi import InvalidServiceError, load, model_service, plan_service, render
from fusioninfer_pulumi.engines.argument_checks import check_arguments
from fusioninfer_pulumi.engines.argument_tables import (
    ArgumentDefinition,
    ArgumentTable,
    load_argument_table,
)
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.vllm import VLLM
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.presets.model_catalogue import load_catalogue

# pytest adds `tests` to the path.
sys.path.append(str(ROOT / "tests"))
blocks: Any = importlib.import_module("page_blocks").blocks
generate_service: Any = importlib.import_module("random_services").generate_service

SEEDS = 300
PROGRAM = Path(__file__).with_name("parse_arguments.py")
VARIABLE = re.compile(r"\$\(\([^)]*\)\)|\$\(\w+\)|\$\{\w+\}|\$\w+")

CONFIG = Path(__file__).with_name("experts_config.json")
"""Configuration of a mixture-of-experts model with all features that arguments need. Sharded
dimensions are divisible by all numbers up to ten."""


@dataclass(frozen=True, order=True)
class CommandLine:
    """Arguments of a vLLM command."""

    words: tuple[str, ...]
    serve: bool = True

    def __str__(self) -> str:
        return " ".join(("vllm serve" if self.serve else "api_server", *self.words))


@dataclass(frozen=True)
class ParserResults:
    """Results of a vLLM release."""

    metrics: list[str]
    errors: Mapping[CommandLine, str]

    def list_rejections(self, lines: Iterable[CommandLine]) -> list[str]:
        return [f"{line}: {self.errors[line]}" for line in lines if self.errors[line]]


def run_parsers(engine: Vllm, lines: Sequence[CommandLine]) -> ParserResults:
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copyfile(CONFIG, Path(scratch) / "config.json")
        requested = [{"serve": line.serve, "words": line.words} for line in lines]
        done = subprocess.run(
            [str(engine.python), "-P", str(PROGRAM)],
            input=json.dumps({"model": scratch, "lines": requested}),
            capture_output=True, text=True, check=False,
            env={**os.environ, "VLLM_CACHE_ROOT": scratch, "VLLM_NO_USAGE_STATS": "1"},
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{engine.name}: {done.stderr[-3000:]}")
    output = json.loads(done.stdout.splitlines()[-1])
    return ParserResults(output["metrics"], dict(zip(lines, output["errors"], strict=True)))


def list_accepted(release: str) -> list[CommandLine]:
    """Return command lines of all services here that `check` accepts for a release."""
    generated = [item for seed in range(SEEDS) for item in generate_service(seed).documents]
    lines: set[CommandLine] = set()
    for document in with_release([*read_services(), *generated], release):
        try:
            (args,) = load(document)
            plan = plan_service(args)
            objects = list(render(plan))
        except InvalidServiceError:
            continue
        if not any(is_release_warning(finding) for finding in plan.findings):
            lines |= read_command_lines(objects, release)
    for objects in read_golden_objects():
        lines |= read_command_lines(objects, release)
    return sorted(lines)


def list_models(release: str) -> list[CommandLine]:
    """Return command lines of all catalogue models on all their GPUs and on CPUs."""
    lines: set[CommandLine] = set()
    for name, model in load_catalogue().items():
        for accelerator in (*model.gpu_plans, "cpu"):
            args = model_service(name, accelerator=accelerator, name="chat", engine=release)
            lines |= read_command_lines(list(render(plan_service(args))), release)
    return sorted(lines)


def is_release_warning(finding: Finding) -> bool:
    return finding.severity == "warning" and finding.rule == "release-without-feature"


def read_services() -> Iterator[Any]:
    """Yield the services in examples, pages and inputs of golden files."""
    texts = [
        file.read_text(encoding="utf-8")
        for folder in ("examples", "tests", "importers/tests")
        for file in sorted((ROOT / folder).rglob("*.yaml"))
    ]
    texts += [
        block.text
        for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        for block in blocks(page)
        if block.language == "yaml" and not block.part_of
    ]
    for text in texts:
        if "kind: InferenceService\n" in text:
            try:
                documents = list(yaml.safe_load_all(text))
            except yaml.YAMLError:  # An invalid test input or a template.
                continue
            yield from (
                document
                for document in documents
                if isinstance(document, dict) and document.get("kind") == "InferenceService"
            )


def read_golden_objects() -> Iterator[Any]:
    for file in (*(ROOT / "tests/fixtures/golden").rglob("*.yaml"), *ROOT.glob("examples/*/expected.yaml")):  # fmt: skip  # noqa: E501
        yield list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def with_release(manifest: Any, release: str) -> Any:
    """Return a manifest with all vLLM images changed to a release."""
    if isinstance(manifest, dict):
        return {key: with_release(value, release) for key, value in manifest.items()}
    if isinstance(manifest, list):
        return [with_release(item, release) for item in manifest]
    if isinstance(manifest, str) and manifest.startswith("vllm/vllm-openai:"):
        return f"vllm/vllm-openai:v{release}"
    return manifest


def read_command_lines(objects: Any, release: str) -> set[CommandLine]:
    lines = set()
    for container in find_containers(objects):
        command = parse_command(container)
        if command.engine is VLLM and command.is_readable and command.image.release == release:
            lines.add(CommandLine(tuple(expand(command.arguments)), is_vllm_serve(command)))
    return lines


def is_vllm_serve(command: EngineCommand) -> bool:
    """Return whether the command or the image's entrypoint is `vllm serve`."""
    version = command.image.stock_release or ()
    return command.is_vllm_serve if command.program else version >= (0, 11, 1)


def expand(words: Sequence[str]) -> Iterator[str]:
    """Yield arguments with variables expanded and without `--config`."""
    skipped = False
    for word in words:
        name = word.partition("=")[0]
        if not skipped and name != "--config":
            yield VARIABLE.sub("1", word)
        skipped = word == "--config"


def list_rejected(release: str) -> list[CommandLine]:
    table = load_argument_table("vllm")
    lines = [("m", *_list_context(words[0]), *words) for words in _list_lines(table, release)]
    lines += [("m", *words) for words in _list_combined_lines()]
    lines += [("--model", "m"), ("m", "stray")]
    return [line for line in dict.fromkeys(map(CommandLine, lines)) if find_errors(line, release)]


def _list_context(word: str) -> tuple[str, ...]:
    """Return arguments that another argument requires."""
    return ("--enable-lora",) if word.startswith("--max-lora") else ()


def _list_lines(table: ArgumentTable, release: str) -> Iterator[tuple[str, ...]]:
    options = table.get_definitions(release)
    words = {word for other in table.releases for word in table.get_definitions(other)}
    for word in sorted(words):
        option = options.get(word)
        if option is None:
            yield (word, "1")
        elif option.kind == "switch":
            yield from ((word,), (f"{word}=1",))
        else:
            yield (word,)
            yield from ((f"{word}={value}",) for value in _list_values(option))


def _list_values(option: ArgumentDefinition) -> Iterator[str]:
    yield from ("0", "-1", "1.5", "x", "8k")
    yield from map(str, option.choices)
    for limit in option.limits.values():
        step = 1 if option.kind in ("int", "size") else 0.01
        yield from (str(limit - step), str(limit), str(limit + step))


def _list_combined_lines() -> Iterator[tuple[str, ...]]:
    yield ("--max-num-seqs", "8", "--max-num-batched-tokens", "4")
    yield ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "99", "--max-model-len", "200")  # fmt: skip  # noqa: E501
    yield ("--enable-auto-tool-choice",)
    yield ("--lora-modules", "a=b")
    for value in ("a", "a=b=c", "{}", '{"name":"x","path":"y"}', "a=b,c", '{"name":"x"}'):
        yield ("--enable-lora", "--lora-modules", value)
    for memory, batch in ((1, 2), (2, 1), (0, 1), (0, 2)):
        yield ("--enable-lora", "--max-cpu-loras", str(memory), "--max-loras", str(batch))
    for tensor in (1, 2, 3, 4):
        for context in (1, 2, 3):
            yield ("-tp", str(tensor), "-dcp", str(context))
    for role in ("kv_both", "kv_x", None):
        for name in ("NixlConnector", "OffloadingConnector", "PyNcclConnector", None):
            settings = {"kv_connector": name, "kv_role": role}
            chosen = {key: value for key, value in settings.items() if value}
            yield ("--kv-transfer-config", json.dumps(chosen))


def find_errors(line: CommandLine, release: str) -> list[Finding]:
    program = ["vllm", "serve"] if line.serve else ["python3", "-m", "vllm.entrypoints.openai.api_server"]  # fmt: skip  # noqa: E501
    image = f"vllm/vllm-openai:v{release}"
    command = parse_command({"image": image, "command": program, "args": list(line.words)})
    findings = [*check_arguments(command, {}), *VLLM.kv_cache.check_connector(command)]
    return [finding for finding in findings if finding.severity == "error"]
