"""`init`: writes a Pulumi project that serves a model. `templates/` is its output, too."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.extras import ADDRESS
from fusioninfer_pulumi.findings import InvalidServiceError, errors
from fusioninfer_pulumi.presets.model_service import model_service

LANGUAGES = ("python", "yaml")
_PACKAGE = f"packages:\n  fusioninfer: {ADDRESS.removeprefix('git+')}\n"
_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class NewProject:
    """What a project is made of.

    Attributes:
        name: Name of the project.
        description: What it says of itself.
        defaults: Defaults of its configuration: model, accelerator, replicas.
        gpus: GPUs of each pod, None for those that the library finds.
        prefill_decode: Whether prefill and decode are roles of their own.
        asks: Whether `pulumi new` asks for the configuration: a template of this repository.
    """

    name: str
    description: str
    defaults: Mapping[str, str | int]
    gpus: int | None = None
    prefill_decode: bool = False
    asks: bool = False

    def files(self, language: str) -> dict[str, str]:
        """The texts of its files, by their names."""
        written = self._python() if language == "python" else self._yaml()
        files = {
            path: "".join(f"{line}\n" for line in text.strip("\n").split("\n"))
            for path, text in written.items()
        }
        described = self._described(language) + files.pop("Pulumi.yaml", "")
        return {"Pulumi.yaml": described, **files}

    # Each language.

    def _python(self) -> dict[str, str]:
        router = ""
        if self.prefill_decode:
            router = (
                "\n        prefill_replicas=1,"
                "\n        # A Gateway of the cluster's default class; name yours in its place."
                '\n        router={"gateway": {}, "httproute": {}},'
            )
        gpus = f"\n        gpus={self.gpus}," if self.gpus is not None else ""
        return {
            "__main__.py": _MAIN,
            "service.py": _SERVICE.replace("MORE", gpus + router),
            "test_service.py": _TEST.replace("MODEL", str(self.defaults["model"]))
            .replace("ACCELERATOR", str(self.defaults["accelerator"]))
            .replace("REPLICAS", str(3 + self.prefill_decode)),
            "requirements.txt": f"fusioninfer-pulumi @ {ADDRESS}@v{__version__}\npytest>=8.2",
            ".gitignore": ".venv/\n.pulumi/\n__pycache__/\n.pytest_cache/",
        }

    def _yaml(self) -> dict[str, str]:
        lines = [
            *_PACKAGE.splitlines(),
            *([] if not self.asks else ["config:", *_TYPES.splitlines()]),
            "resources:",
            "  llm:",
            "    type: fusioninfer:InferenceService",
            "    properties:",
            "      model:",
            "        uri: hf://${model}",
            "      roles:",
        ]
        if self.prefill_decode:
            lines += [
                "        - name: router",
                "          componentType: router",
                "          gateway: {}",
                "          httproute: {}",
            ]
        for name, kind, replicas in self._roles("${replicas}"):
            lines += [
                f"        - name: {name}",
                f"          componentType: {kind}",
                "          accelerator: ${accelerator}",
                *([] if self.gpus is None else [f"          gpus: {self.gpus}"]),
                f"          replicas: {replicas}",
            ]
        lines += ["outputs:", "  endpoint: ${llm.endpoint}", "  status: ${llm.status}"]
        return {"Pulumi.yaml": "\n".join(lines), ".gitignore": ".pulumi/"}

    def _roles(self, replicas: str) -> list[tuple[str, str, str]]:
        """Name, type and replicas of each serving role."""
        if self.prefill_decode:
            return [("prefill", "prefiller", "1"), ("decode", "decoder", replicas)]
        return [("serve", "worker", replicas)]

    def _described(self, language: str) -> str:
        """The head of Pulumi.yaml."""
        lines = [f"name: {self.name}", f"description: {self.description}"]
        if language == "python":
            lines += ["runtime:", "  name: python", "  options:", "    toolchain: pip",
                      "    virtualenv: .venv"]  # fmt: skip
        else:
            lines += ["runtime: yaml"]
        if self.asks:
            lines += ["template:", f"  description: {_TEMPLATE}, in {_TITLES[language]}"]
        indent = "  " if self.asks else ""
        lines.append(f"{indent}config:")
        for key, value in self.defaults.items():
            lines.append(f"{indent}  {key}:")
            if self.asks:
                lines += [f"    {indent}description: {_MEANINGS[key]}"]
            elif isinstance(value, int):
                lines += [f"    {indent}type: integer"]
            stated = f'"{value}"' if self.asks and isinstance(value, int) else value
            lines.append(f"    {indent}default: {stated}")
        return "".join(f"{line}\n" for line in lines)


#: What `pulumi new` copies and asks for: `templates/python` and `templates/yaml`.
TEMPLATE = NewProject(
    name="${PROJECT}",
    description="${DESCRIPTION}",
    defaults={"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": 2},
    asks=True,
)


def init(options: argparse.Namespace) -> int:
    """Writes a project into a folder that has none of its files yet."""
    name = _WORDS.sub("-", options.model.rpartition("/")[2].lower()).strip("-")[:40].strip("-")
    folder = Path(options.directory or name or "llm")
    project = NewProject(
        name=_WORDS.sub("-", folder.resolve().name.lower()).strip("-") or "llm",
        description=f"Serves {options.model}",
        defaults={"model": options.model, "accelerator": options.accelerator, "replicas": 1},
        gpus=options.gpus,
        prefill_decode=options.prefill_decode,
    )
    problems = _problems(options)
    if problems:
        sys.stderr.writelines(f"fusioninfer-pulumi init: {problem}\n" for problem in problems)
        return 2
    files = project.files(options.language)
    taken = [path for path in files if (folder / path).exists()]
    if taken:
        sys.stderr.write(f"fusioninfer-pulumi init: {folder / taken[0]} exists already\n")
        return 2
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as problem:
        sys.stderr.write(f"fusioninfer-pulumi init: {folder}: {problem.strerror or problem}\n")
        return 2
    sys.stdout.write("".join(f"{folder / path}\n" for path in files))
    return 0


def _problems(options: argparse.Namespace) -> list[str]:
    """Why the service of a project could not run."""
    more: dict[str, Any] = {} if options.gpus is None else {"gpus": options.gpus}
    if options.prefill_decode:
        more |= {"prefill_replicas": 1, "router": {"gateway": {}, "httproute": {}}}
    try:
        args = model_service(options.model, accelerator=options.accelerator, name="llm", **more)
    except InvalidServiceError as problem:
        return [f"{finding.path}: {finding.message}" for finding in problem.findings]
    problems = errors(plan_service(args).findings)
    return [f"{finding.path}: {finding.message}" for finding in problems]


_TITLES = {"python": "Python", "yaml": "YAML"}
_TEMPLATE = "A large language model on Kubernetes"
_MEANINGS = {
    "model": "The model, as Hugging Face names it",
    "accelerator": "What each GPU is, such as H100; cpu for processors",
    "replicas": "Replicas of the model",
}
_TYPES = """\
  model:
    type: string
  accelerator:
    type: string
  replicas:
    type: integer
"""

_MAIN = '''
"""Deploys a large language model."""

import pulumi
from service import service_args

from fusioninfer_pulumi import InferenceService

config = pulumi.Config()
service = InferenceService(
    "llm",
    service_args(
        model=config.require("model"),
        accelerator=config.require("accelerator"),
        replicas=config.require_int("replicas"),
    ),
)

pulumi.export("endpoint", service.endpoint)
pulumi.export("status", service.status)
'''
_SERVICE = '''
"""The service, apart from Pulumi: the test plans it without a cluster."""

from fusioninfer_pulumi import InferenceServiceArgs, model_service


def service_args(model: str, accelerator: str, replicas: int) -> InferenceServiceArgs:
    """Replicas of a model; `fusioninfer-pulumi plan . --explain` says what they become."""
    return model_service(
        model,
        accelerator=accelerator,
        replicas=replicas,MORE
    )
'''
_TEST = '''
"""What would be deployed, without Pulumi and without a cluster: run `pytest`."""

from service import service_args

from fusioninfer_pulumi import plan_service


def test_the_service_can_run() -> None:
    args = service_args("MODEL", accelerator="ACCELERATOR", replicas=3)
    plan = plan_service(args, "llm")
    assert [each.message for each in plan.findings if each.severity == "error"] == []
    assert sum(len(role.replicas) for role in plan.roles) == REPLICAS
'''
