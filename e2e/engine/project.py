"""A Pulumi project with its own file backend, run by the real Pulumi command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")
TIMEOUT_SECONDS = 300.0

PROGRAM = """\
import os
from pathlib import Path

import pulumi
import yaml

from fusioninfer_pulumi import InferenceService

options = None
if os.environ.get("RENDER_TO"):
    import pulumi_kubernetes

    provider = pulumi_kubernetes.Provider("files", render_yaml_to_directory=os.environ["RENDER_TO"])
    options = pulumi.ResourceOptions(provider=provider)
for text in Path("services.yaml").read_text().split("\\n---\\n"):
    args = yaml.safe_load(text)
    if args is None:
        continue
    for role in args["spec"]["roles"]:
        for container in role.get("template", {}).get("spec", {}).get("containers", []):
            for entry in container.get("env", []):
                if entry["value"] == "secret":
                    entry["value"] = pulumi.Output.secret("s3cr3t-value")
    service = InferenceService(args["metadata"]["name"], args, options)
    pulumi.export("status", service.status)
    pulumi.export("endpoint", service.endpoint)
"""


def list_missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass(frozen=True)
class CommandResult:
    """Exit status and output of a `pulumi` command."""

    status: int
    text: str

    def assert_succeeded(self) -> CommandResult:
        """Fail with the end of the output unless the command succeeded."""
        assert self.status == 0, self.text[-6000:]
        return self

    def assert_failed(self) -> CommandResult:
        """Fail with the end of the output if the command succeeded."""
        assert self.status != 0, self.text[-6000:]
        return self

    def read_diagnostics(self) -> list[str]:
        """Return the lines of the diagnostics that a failed command prints at its end."""
        lines = self.assert_failed().text.split("Diagnostics:")[1].splitlines()
        return [line.strip().removeprefix("error: ") for line in lines]


class Project:
    """A stack `dev` whose program creates the services of a file, or is an example."""

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path | None,
        *,
        backend: Path | None = None,
        example: Path | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        if example is None:
            folder.mkdir(parents=True)
        else:
            shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
        home, state = folder / "home", backend or folder / "state"
        home.mkdir()
        state.mkdir(exist_ok=True)
        self.folder = folder
        self.timeout = timeout
        self.state = state
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")},
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": state.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "end-to-end",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONPATH": str(REPOSITORY),
        }
        self.environment.pop("KUBECONFIG", None)
        if kubeconfig is not None:
            self.environment["KUBECONFIG"] = str(kubeconfig)
        runtime = {"name": "python", "options": {"virtualenv": sys.prefix}}
        project_file = folder / "Pulumi.yaml"
        settings = {"name": folder.name}
        if example is not None:
            settings = yaml.safe_load(project_file.read_text(encoding="utf-8"))
        text = yaml.safe_dump({**settings, "runtime": runtime})
        project_file.write_text(text, encoding="utf-8")
        if example is None:
            self.program = PROGRAM
            self.write()
        self.run("stack", "init", f"organization/{settings['name']}/dev").assert_succeeded()

    @property
    def program(self) -> str:
        """Source code of the program; assign to replace it."""
        return (self.folder / "__main__.py").read_text(encoding="utf-8")

    @program.setter
    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text, encoding="utf-8")

    def write(self, *services: Mapping[str, Any]) -> None:
        text = "\n---\n".join(yaml.safe_dump(dict(service)) for service in services)
        (self.folder / "services.yaml").write_text(text, encoding="utf-8")

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in its own process group, so that signals reach all or none of it."""
        return subprocess.Popen(
            ["pulumi", *words, "--non-interactive"],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **environment: str) -> CommandResult:
        process = self.start(*words, **environment)
        try:
            text, _ = process.communicate(timeout=self.timeout)
        except BaseException as error:
            # This includes the language host and the provider, which are in the same process group.
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            message = f"pulumi {' '.join(words)} took longer than {self.timeout:.0f} s"
            raise AssertionError(f"{message}:\n{text[-6000:]}") from None
        return CommandResult(process.returncode, text)

    def up(self, **environment: str) -> CommandResult:
        return self.run("up", "--yes", "--skip-preview", "--color", "never", **environment)

    def down(self) -> CommandResult:
        return self.run("destroy", "--yes", "--skip-preview", "--color", "never")

    def refresh(self) -> CommandResult:
        return self.run("refresh", "--yes", "--skip-preview", "--color", "never")

    def preview(self, **environment: str) -> dict[str, int]:
        """Return the operations that an update would do and their number, without `same`."""
        result = self.json("preview", "--json", **environment)
        summary: dict[str, int] = result["changeSummary"]
        return {key: count for key, count in summary.items() if key != "same"}

    def read_changes(self) -> dict[str, int]:
        """Return the operations of the last update and their number, without `same`."""
        (last, *_) = self.json("stack", "history", "--json", "--page-size", "1")
        changed: dict[str, int] = last["resourceChanges"]
        return {key: count for key, count in changed.items() if key != "same"}

    def read_output(self, name: str) -> Any:
        return self.json("stack", "output", "--json")[name]

    def read_resources(self) -> list[dict[str, Any]]:
        state = self.json("stack", "export")
        resources: list[dict[str, Any]] = state["deployment"].get("resources") or []
        return resources

    def json(self, *words: str, **environment: str) -> Any:
        result = self.run(*words, **environment).assert_succeeded()
        positions = [at for at in (result.text.find("{"), result.text.find("[")) if at >= 0]
        value, _ = json.JSONDecoder().raw_decode(result.text[min(positions) :])
        return value
