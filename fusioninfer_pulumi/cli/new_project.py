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

LANGUAGES = ("python", "yaml", "typescript", "go")
_RUNTIMES = {"typescript": "nodejs"}
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
        writers = {
            "python": self._python,
            "yaml": self._yaml,
            "typescript": self._typescript,
            "go": self._go,
        }
        files = {
            path: "".join(f"{line}\n" for line in text.strip("\n").split("\n"))
            for path, text in writers[language]().items()
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

    def _typescript(self) -> dict[str, str]:
        roles = ""
        if self.prefill_decode:
            roles += (
                '        { name: "router", componentType: "router", gateway: {}, httproute: {} },\n'
            )
        gpus = "" if self.gpus is None else f" gpus: {self.gpus},"
        for name, kind, replicas in self._roles("replicas"):
            roles += (
                f'        {{ name: "{name}", componentType: "{kind}", accelerator,{gpus} '
                f"{'replicas' if replicas == 'replicas' else f'replicas: {replicas}'} }},\n"
            )
        package = _PACKAGE_JSON.replace("NAME", self.name)
        return {
            "Pulumi.yaml": _PACKAGE,
            "index.ts": _INDEX.replace("ROLES", roles.rstrip("\n")),
            "package.json": package,
            "tsconfig.json": _TSCONFIG,
            ".gitignore": "node_modules/\nsdks/\n.pulumi/",
        }

    def _go(self) -> dict[str, str]:
        roles = ""
        if self.prefill_decode:
            roles += _GO_ROUTER
        for name, kind, replicas in self._roles("pulumi.IntRef(replicas)"):
            roles += (
                _GO_ROLE.replace("NAME", name)
                .replace("KIND", kind.capitalize())
                .replace("REPLICAS", replicas if "(" in replicas else f"pulumi.IntRef({replicas})")
                .replace(
                    "GPUS",
                    ""
                    if self.gpus is None
                    else f"\n\t\t\t\t\tGpus:          pulumi.IntRef({self.gpus}),",
                )
            )
        return {
            "Pulumi.yaml": _PACKAGE,
            "main.go": _GO.replace("ROLES", roles.rstrip("\n")),
            "go.mod": _GO_MOD.replace("NAME", self.name),
            ".gitignore": "sdks/\n.pulumi/",
        }

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
            lines += [f"runtime: {_RUNTIMES.get(language, language)}"]
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


_TITLES = {"python": "Python", "yaml": "YAML", "typescript": "TypeScript", "go": "Go"}
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
_INDEX = """
import * as fusioninfer from "@pulumi/fusioninfer";
import * as pulumi from "@pulumi/pulumi";

const config = new pulumi.Config();
const accelerator = config.require("accelerator");
const replicas = config.requireNumber("replicas");

const service = new fusioninfer.InferenceService("llm", {
    model: { uri: `hf://${config.require("model")}` },
    roles: [
ROLES
    ],
});

export const endpoint = service.endpoint;
export const status = service.status;
"""
_PACKAGE_JSON = """
{
    "name": "NAME",
    "main": "index.ts",
    "devDependencies": {
        "@types/node": "^22",
        "typescript": "^5.0.0"
    },
    "dependencies": {
        "@pulumi/pulumi": "^3.246.0"
    }
}
"""
_TSCONFIG = """
{
    "compilerOptions": {
        "strict": true,
        "target": "es2022",
        "module": "commonjs",
        "moduleResolution": "node"
    },
    "files": ["index.ts"]
}
"""
_GO = """
package main

import (
	"github.com/fusioninfer/fusioninfer-pulumi/sdk/go/fusioninfer"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"
)

func main() {
	pulumi.Run(func(ctx *pulumi.Context) error {
		settings := config.New(ctx, "")
		accelerator := settings.Require("accelerator")
		replicas := settings.RequireInt("replicas")
		args := &fusioninfer.InferenceServiceArgs{
			Model: &fusioninfer.ModelArgs{Uri: "hf://" + settings.Require("model")},
			Roles: fusioninfer.RoleArray{
ROLES
			},
		}
		service, err := fusioninfer.NewInferenceService(ctx, "llm", args)
		if err != nil {
			return err
		}
		ctx.Export("endpoint", service.Endpoint)
		ctx.Export("status", service.Status)
		return nil
	})
}
"""
_GO_MOD = """
module NAME

go 1.24

require github.com/pulumi/pulumi/sdk/v3 v3.246.0
"""
_GO_ROUTER = """\
				&fusioninfer.RoleArgs{
					Name:          "router",
					ComponentType: fusioninfer.ComponentTypeRouter,
					Gateway:       &fusioninfer.GatewayArgs{},
					Httproute:     &fusioninfer.HttpRouteArgs{},
				},
"""
_GO_ROLE = """\
				&fusioninfer.RoleArgs{
					Name:          "NAME",
					ComponentType: fusioninfer.ComponentTypeKIND,
					Accelerator:   pulumi.StringRef(accelerator),
					Replicas:      REPLICAS,GPUS
				},
"""
