"""Resources of the platform example: providers, and outputs for another stack."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "platform-stack"


def program(monkeypatch: pytest.MonkeyPatch, folder: Path, stack: str | None) -> Any:
    """Return the project's program, run as the language host would."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    # Ignore kubeconfigs of this machine.
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    config: dict[str, str] = {}
    if stack is None:
        project = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))
        for key, declared in project["config"].items():
            config[f"app:{key}"] = declared["default"]
    else:
        settings = yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
        for key, value in settings["config"].items():
            text = value if isinstance(value, str) else json.dumps(value)
            config[f"app:{key.partition(':')[2]}"] = text
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)

    def run() -> dict[str, Any]:
        pulumi.runtime.set_all_config(config)
        runpy.run_path(str(folder / "__main__.py"), run_name="__main__")
        return exported

    return run


def test_objects_use_provider_of_their_cluster(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = engine.run(program(monkeypatch, EXAMPLE, "prod"), preview=True)
    clusters = {name: f"{done[name].urn}::" for name in ("east", "west")}
    objects = [child for child in done.children if not child.key[0].startswith("pulumi:providers:")]
    assert len(objects) == 4 + 8 + (1 + 2 + 1) + 2 + 8
    for resource in objects:
        (fields,) = [name for name in clusters if resource.request.name.startswith(name)]
        assert resource.request.provider.startswith(clusters[fields])
    # Without a kubeconfig the clusters are not checked, which is logged.
    assert len([text for text in done.logged if "were not checked" in text]) == 2


def test_endpoints_are_exported_by_cluster(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = engine.run(program(monkeypatch, EXAMPLE, "prod"))
    assert done.exports["endpoints"] == {
        "east": {
            "chat": "http://chat.example.com",
            "reasoning": "http://reasoning.models.svc:8000",
        },
        "west": {"chat": "http://chat.example.com"},
    }
    assert set(done.exports) == {"east-chat", "east-reasoning", "west-chat", "endpoints"}
    assert "components" in done.exports["east-chat"]["status"]


def test_consumer_stack_reads_platform_outputs(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = {"endpoints": {"dev": {"chat": "http://chat.example.com"}}}
    requests = []
    plain = engine.new_resource

    def new_resource(args: Any) -> Any:
        if args.typ == "pulumi:pulumi:StackReference":
            requests.append(args.inputs["name"])
            return args.name, {**args.inputs, "outputs": exported}
        return plain(args)

    monkeypatch.setattr(engine, "new_resource", new_resource)
    done = engine.run(program(monkeypatch, EXAMPLE / "consumer", None))
    assert requests == ["organization/platform-stack/dev"]
    assert done["model"].inputs["data"] == {"OPENAI_BASE_URL": "http://chat.example.com/v1"}
    assert done.exports == {"endpoint": "http://chat.example.com"}
