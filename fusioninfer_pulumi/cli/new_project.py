"""`init`: write a Pulumi project that serves a model. `templates/` is its output, too."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.cli.installation import Installation, installed_from, repository
from fusioninfer_pulumi.cli.printing import to_yaml
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity, errors
from fusioninfer_pulumi.presets.model_service import model_service

LANGUAGES = ("python", "yaml")
_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class NewProject:
    """The contents of a new project.

    Attributes:
        name: Name of the project.
        description: Description of the project.
        defaults: Defaults of its configuration: model, accelerator, replicas.
        gpus: GPUs of each pod, None to let the library choose.
        prefill_decode: Whether prefill and decode are separate roles.
        asks: Whether `pulumi new` asks for the configuration: a template of this repository.
        source: Where the project installs this package from.
    """

    name: str
    description: str
    defaults: Mapping[str, str | int]
    gpus: int | None = None
    prefill_decode: bool = False
    asks: bool = False
    source: Installation = field(default_factory=installed_from)

    def files(self, language: str) -> dict[str, str]:
        """The texts of its files, by their names."""
        return self._python() if language == "python" else self._yaml()

    def _python(self) -> dict[str, str]:
        more = "" if self.gpus is None else f"\n        gpus={self.gpus},"
        if self.prefill_decode:
            more += (
                "\n        prefill_replicas=1,"
                "\n        # A Gateway of the cluster's default class; name yours in its place."
                '\n        router={"gateway": {}, "httproute": {}},'
            )
        options = {"toolchain": "pip", "virtualenv": ".venv"}
        program = {"runtime": {"name": "python", "options": options}, **self._config("Python")}
        return {
            "Pulumi.yaml": self._described(program),
            "__main__.py": _MAIN,
            "service.py": _SERVICE.replace("EDITION", EDITION).replace("MORE", more),
            "test_service.py": _TEST.replace("MODEL", _quoted(self.defaults["model"]))
            .replace("ACCELERATOR", _quoted(self.defaults["accelerator"]))
            .replace("REPLICAS", str(3 + self.prefill_decode)),
            "requirements.txt": "\n".join([*self.source.requirements, "pytest>=8.2", ""]),
            ".gitignore": ".venv/\n.pulumi/\n__pycache__/\n.pytest_cache/\n",
        }

    def _yaml(self) -> dict[str, str]:
        gpus = {} if self.gpus is None else {"gpus": self.gpus}
        roles: list[dict[str, Any]] = []
        kinds: list[tuple[str, str, str | int]] = [("serve", "worker", "${replicas}")]
        if self.prefill_decode:
            roles += [{"name": "router", "componentType": "router", "gateway": {}, "httproute": {}}]
            kinds = [("prefill", "prefiller", 1), ("decode", "decoder", "${replicas}")]
        roles += [
            {"name": name, "componentType": kind, "accelerator": "${accelerator}", **gpus,
             "replicas": replicas}
            for name, kind, replicas in kinds
        ]  # fmt: skip
        model = "${model}" if "://" in str(self.defaults["model"]) else "hf://${model}"
        types = {key: {"type": "string"} for key in self.defaults}
        types["replicas"] = {"type": "integer"}
        program = {
            "runtime": "yaml",
            **self._config("YAML"),
            **self.source.plugin,
            **({"config": types} if self.asks else {}),
            "resources": {
                "llm": {
                    "type": "fusioninfer:InferenceService",
                    "properties": {"edition": EDITION, "model": {"uri": model}, "roles": roles},
                }
            },
            "outputs": {"endpoint": "${llm.endpoint}", "status": "${llm.status}"},
        }
        return {"Pulumi.yaml": self._described(program), ".gitignore": ".pulumi/\n"}

    def _described(self, program: Mapping[str, Any]) -> str:
        return to_yaml([{"name": self.name, "description": self.description, **program}])

    def _config(self, language: str) -> dict[str, Any]:
        """The configuration with its defaults, which `pulumi new` asks for in a template."""
        if self.asks:
            questions = {
                key: {"description": _MEANINGS[key], "default": str(value)}
                for key, value in self.defaults.items()
            }
            return {"template": {"description": f"{_TEMPLATE}, in {language}", "config": questions}}
        return {
            "config": {
                key: {"type": "integer", "default": value}
                if isinstance(value, int)
                else {"default": value}
                for key, value in self.defaults.items()
            }
        }


def _quoted(value: str | int) -> str:
    """A text as a literal of Python."""
    return json.dumps(value, ensure_ascii=False)


#: The newest edition, which a new project keeps.
EDITION = list(Edition)[-1].value
#: Of `init` and the templates, as of `model_service`.
_REPLICAS = 1
#: The templates of `pulumi new`: `templates/python` and `templates/yaml`.
TEMPLATE = NewProject(
    name="${PROJECT}",
    description="${DESCRIPTION}",
    defaults={"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": _REPLICAS},
    asks=True,
    source=repository(),
)


def init(options: argparse.Namespace) -> int:
    """Writes a project into a folder that has none of its files yet."""
    model = options.model.removeprefix("hf://")
    name = _WORDS.sub("-", model.rpartition("/")[2].lower()).strip("-")[:40].strip("-")
    folder = Path(options.directory or name or "llm")
    project = NewProject(
        name=_WORDS.sub("-", folder.resolve().name.lower()).strip("-") or "llm",
        description=f"Serves {model}",
        defaults={"model": model, "accelerator": options.accelerator, "replicas": _REPLICAS},
        gpus=options.gpus,
        prefill_decode=options.prefill_decode,
    )
    findings = _findings(options)
    for finding in findings:
        sys.stderr.write(f"fusioninfer-pulumi init: {finding.path}: {finding.message}\n")
    if errors(findings):
        return 2
    files = project.files(options.language)
    # A dangling link counts as a file, because writing would follow it.
    taken = [path for path in files if os.path.lexists(folder / path)]
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


def _findings(options: argparse.Namespace) -> list[Finding]:
    """Return the errors and warnings of the service that a project would have."""
    more: dict[str, Any] = {} if options.gpus is None else {"gpus": options.gpus}
    if options.prefill_decode:
        more |= {"prefill_replicas": 1, "router": {"gateway": {}, "httproute": {}}}
    try:
        args = model_service(options.model, accelerator=options.accelerator, name="llm", **more)
    except InvalidServiceError as problem:
        return list(problem.findings)
    findings = plan_service(args).findings
    return [finding for finding in findings if finding.severity is not Severity.INFO]


_TEMPLATE = "A large language model on Kubernetes"
_MEANINGS = {
    "model": "Name of the model on Hugging Face",
    "accelerator": "GPU model, such as H100, or cpu",
    "replicas": "Number of replicas",
}
_MAIN = '''\
"""Deploy a large language model."""

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
_SERVICE = '''\
"""The service; the test plans it without Pulumi and without a cluster."""

from fusioninfer_pulumi import InferenceServiceArgs, model_service


def service_args(model: str, accelerator: str, replicas: int) -> InferenceServiceArgs:
    """Return the service; `fusioninfer-pulumi plan . --explain` shows the generated values."""
    return model_service(
        model,
        accelerator=accelerator,
        replicas=replicas,
        edition="EDITION",MORE
    )
'''
_TEST = '''\
"""Test the planned objects with `pytest`, without Pulumi and without a cluster."""

from service import service_args

from fusioninfer_pulumi import plan_service


def test_the_service_can_run() -> None:
    args = service_args(MODEL, accelerator=ACCELERATOR, replicas=3)
    plan = plan_service(args, "llm")
    assert [finding.message for finding in plan.findings if finding.severity == "error"] == []
    assert sum(len(role.replicas) for role in plan.roles) == REPLICAS
'''
