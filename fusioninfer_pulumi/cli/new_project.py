"""The command `init`, which writes a Pulumi project, and the files of `templates/`.

A project requires the version of this package that wrote the project: the git tag or commit if the
package is installed from git, otherwise its directory or wheel, or its version in a package index
(PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.cli.printing import to_yaml, write_files
from fusioninfer_pulumi.extras import ADDRESS
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity, filter_errors
from fusioninfer_pulumi.presets.model_service import model_service

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def format_release_tag(version: str) -> str | None:
    """Return the git tag of a version, or None for development versions."""
    return None if "dev" in version else f"v{version}"


RELEASE_TAG = format_release_tag(__version__)
#: Packages that a project installs, with the URL fragments of their directories in the repository.
_PACKAGES = {"fusioninfer-pulumi": "", "fusioninfer-capacity": "#subdirectory=capacity"}
# Pulumi reads the version 0.0.0 as the default branch, and no version as the latest tag.
_DEFAULT_BRANCH = "0.0.0"


@dataclass(frozen=True)
class Installation:
    """How a project installs this package.

    Attributes:
        requirements: Lines of requirements.txt.
        plugin: Fields of Pulumi.yaml for the plugin.
    """

    requirements: Sequence[str]
    plugin: Mapping[str, Any]


def describe_repository(
    url: str = ADDRESS.removeprefix("git+"), revision: str | None = RELEASE_TAG
) -> Installation:
    """Describe an installation from a git repository; None means the default branch."""
    ref = f"@{revision}" if revision else ""
    lines = [f"{package} @ git+{url}{ref}{directory}" for package, directory in _PACKAGES.items()]
    # Pulumi downloads packages from git repositories only over HTTPS.
    is_https = url.startswith("https://")
    plugin = {"packages": {"fusioninfer": f"{url}@{revision or _DEFAULT_BRANCH}"}}
    return Installation(lines, plugin if is_https else _describe_local_plugin())


def read_installation() -> Installation:
    """Describe how this package was installed."""
    record = _read_direct_url("fusioninfer-pulumi")
    if record is not None and "vcs_info" in record:
        vcs = record["vcs_info"]
        is_release = RELEASE_TAG is not None and vcs.get("requested_revision") == RELEASE_TAG
        return describe_repository(record["url"], RELEASE_TAG if is_release else vcs["commit_id"])
    lines = []
    for package in _PACKAGES:
        record = _read_direct_url(package)
        if record is None:
            continue
        if "url" not in record:
            lines.append(f"{package}=={distribution(package).version}")
        elif record.get("dir_info", {}).get("editable"):
            lines.append(f"-e {record['url']}")
        else:
            lines.append(f"{package} @ {record['url']}")
    if any("file:" in line for line in lines):
        lines.insert(0, "# Works only on this machine; use a tag or commit to share the project.")
    return Installation(lines, _describe_local_plugin())


def _describe_local_plugin() -> dict[str, Any]:
    directory = sysconfig.get_path("scripts")
    return {"plugins": {"providers": [{"name": "fusioninfer", "path": directory}]}}


def _read_direct_url(package: str) -> dict[str, Any] | None:
    """Return `direct_url.json`: empty if installed from an index, or None if not installed."""
    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    record: dict[str, Any] = json.loads(text or "{}")
    return record


@dataclass(frozen=True)
class NewProject:
    """The contents of a new project.

    Attributes:
        defaults: Defaults of the project's configuration: model, accelerator, replicas.
        gpus: GPUs of each pod; None means that the library chooses.
        prefill_decode: Whether prefill and decode are separate roles.
        is_template: Whether the project is a template: `pulumi new` asks for its configuration.
    """

    name: str
    description: str
    defaults: Mapping[str, str | int]
    gpus: int | None = None
    prefill_decode: bool = False
    is_template: bool = False
    installation: Installation = field(default_factory=read_installation)

    def render_files(self, language: str) -> dict[str, str]:
        """Return the texts of the project's files by name."""
        return self._render_python() if language == "python" else self._render_yaml()

    def _render_python(self) -> dict[str, str]:
        arguments = "" if self.gpus is None else f"\n        gpus={self.gpus},"
        if self.prefill_decode:
            arguments += (
                "\n        prefill_replicas=1,"
                "\n        # Creates a Gateway of the cluster's default class; or name yours here."
                '\n        router={"gateway": {}, "httproute": {}},'
            )
        options = {"toolchain": "pip", "virtualenv": ".venv"}
        program = {
            "runtime": {"name": "python", "options": options},
            **self._render_config("Python"),
        }
        return {
            "Pulumi.yaml": self._render_pulumi_yaml(program),
            "__main__.py": _MAIN,
            "service.py": _SERVICE.replace("EDITION", EDITION).replace("ARGUMENTS", arguments),
            "test_service.py": _TEST.replace("MODEL", _quote(self.defaults["model"]))
            .replace("ACCELERATOR", _quote(self.defaults["accelerator"]))
            # The test sets three replicas; in addition there is one prefill replica.
            .replace("REPLICAS_OF_ALL_ROLES", "4" if self.prefill_decode else "3"),
            "requirements.txt": "\n".join([*self.installation.requirements, "pytest>=8.2", ""]),
            ".gitignore": ".venv/\n.pulumi/\n__pycache__/\n.pytest_cache/\n",
        }

    def _render_yaml(self) -> dict[str, str]:
        gpus = {} if self.gpus is None else {"gpus": self.gpus}
        roles: list[dict[str, Any]] = []
        engine_roles: list[tuple[str, str, str | int]] = [("serve", "worker", "${replicas}")]
        if self.prefill_decode:
            roles += [{"name": "router", "componentType": "router", "gateway": {}, "httproute": {}}]
            engine_roles = [("prefill", "prefiller", 1), ("decode", "decoder", "${replicas}")]
        roles += [
            {"name": name, "componentType": component_type, "accelerator": "${accelerator}", **gpus,
             "replicas": replicas}
            for name, component_type, replicas in engine_roles
        ]  # fmt: skip
        model = "${model}" if "://" in str(self.defaults["model"]) else "hf://${model}"
        # Only a template needs them: `_render_config` declares the config of other projects.
        types = {key: {"type": "string"} for key in self.defaults}
        types["replicas"] = {"type": "integer"}
        program = {
            "runtime": "yaml",
            **self._render_config("YAML"),
            **self.installation.plugin,
            **({"config": types} if self.is_template else {}),
            "resources": {
                "llm": {
                    "type": "fusioninfer:InferenceService",
                    "properties": {"edition": EDITION, "model": {"uri": model}, "roles": roles},
                }
            },
            "outputs": {"endpoint": "${llm.endpoint}", "status": "${llm.status}"},
        }
        return {"Pulumi.yaml": self._render_pulumi_yaml(program), ".gitignore": ".pulumi/\n"}

    def _render_pulumi_yaml(self, program: Mapping[str, Any]) -> str:
        return to_yaml([{"name": self.name, "description": self.description, **program}])

    def _render_config(self, language: str) -> dict[str, Any]:
        if self.is_template:
            questions = {
                key: {"description": _CONFIG_DESCRIPTIONS[key], "default": str(value)}
                for key, value in self.defaults.items()
            }
            description = f"A large language model on Kubernetes, in {language}"
            return {"template": {"description": description, "config": questions}}
        config: dict[str, dict[str, Any]] = {}
        for key, value in self.defaults.items():
            config[key] = {"type": "integer"} if isinstance(value, int) else {}
            config[key]["default"] = value
        return {"config": config}


def _quote(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)


#: The newest edition; a new project stays on it.
EDITION = list(Edition)[-1].value
#: The same as the default of `model_service`.
_REPLICAS = 1
#: The templates of `pulumi new`: `templates/python` and `templates/yaml`.
TEMPLATE = NewProject(
    name="${PROJECT}",
    description="${DESCRIPTION}",
    defaults={"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": _REPLICAS},
    is_template=True,
    installation=describe_repository(),
)


def init(options: argparse.Namespace) -> int:
    """Write a project, unless the directory already has one of its files."""
    model = options.model.removeprefix("hf://")
    model_name = _to_name(model.rpartition("/")[2])[:40].strip("-")
    directory = Path(options.directory or model_name or "llm")
    project = NewProject(
        name=_to_name(directory.resolve().name) or "llm",
        description=f"Serves {model}",
        defaults={"model": model, "accelerator": options.accelerator, "replicas": _REPLICAS},
        gpus=options.gpus,
        prefill_decode=options.prefill_decode,
    )
    findings = _check_service(options)
    for finding in findings:
        sys.stderr.write(f"fusioninfer-pulumi init: {finding.path}: {finding.message}\n")
    if filter_errors(findings):
        return 2
    files = project.render_files(options.language)
    # A dangling link counts as a file, because writing would follow it.
    existing = [path for path in files if os.path.lexists(directory / path)]
    if existing:
        sys.stderr.write(f"fusioninfer-pulumi init: {directory / existing[0]} already exists\n")
        return 2
    return write_files(directory, files)


def _to_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")


def _check_service(options: argparse.Namespace) -> list[Finding]:
    arguments: dict[str, Any] = {} if options.gpus is None else {"gpus": options.gpus}
    if options.prefill_decode:
        arguments |= {"prefill_replicas": 1, "router": {"gateway": {}, "httproute": {}}}
    try:
        args = model_service(
            options.model, accelerator=options.accelerator, name="llm", **arguments
        )
    except InvalidServiceError as exc:
        return list(exc.findings)
    findings = plan_service(args).findings
    return [finding for finding in findings if finding.severity is not Severity.INFO]


_CONFIG_DESCRIPTIONS = {
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
        edition="EDITION",ARGUMENTS
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
    assert sum(len(role.replicas) for role in plan.roles) == REPLICAS_OF_ALL_ROLES
'''
