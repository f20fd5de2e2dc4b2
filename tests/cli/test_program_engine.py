"""Resources that only the Pulumi engine can expand are warnings, and the program continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import messages

from fusioninfer_pulumi.cli.program.recording import Recording

Run = Callable[[str], Recording]


def names(recording: Recording) -> list[str]:
    return [item["metadata"]["name"] for item in recording.objects]


def test_yaml_v1_resources_are_expanded(run: Run, tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {day: 2024-01-01}\n"
        "---\napiVersion: x.io/v1\nkind: Thing\nmetadata: {name: two}\nspec: {size: 2}\n"
    )
    recording = run('k8s.yaml.ConfigFile("file", "objects.yaml")')
    assert sorted(names(recording)) == ["one", "two"]
    assert messages(recording) == ()


def test_dynamic_providers_do_not_run(run: Run) -> None:
    recording = run(
        """
        from pulumi.dynamic import CreateResult, Resource, ResourceProvider

        class Provider(ResourceProvider):
            def create(self, props):
                raise AssertionError("must not run")

        class Made(Resource):
            token: pulumi.Output[str]

            def __init__(self, name):
                super().__init__(Provider(), name, {"size": 1, "token": None})

        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={"token": Made("made").token})
        """
    )
    assert recording.objects[0]["data"] == {"token": "<unknown>"}
    assert messages(recording) == ()


def test_warnings_of_program_are_recorded_once(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    recording = run(
        """
        made = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
        pulumi.log.warn("twice")
        pulumi.log.warn("twice")
        pulumi.log.warn("about it,\\nin two lines", made)
        pulumi.log.error("bad")
        pulumi.log.info("progress")
        pulumi.log.debug("noise")
        """
    )
    assert messages(recording) == ("twice", "error: bad", "about it, in two lines")
    assert capfd.readouterr() == ("", "progress\n")


def test_method_results_are_unknown(run: Run) -> None:
    recording = run(
        """
        chart = k8s.helm.v4.Chart("nginx", chart="nginx")
        called = pulumi.runtime.call("kubernetes:index:Chart/value", {"__self__": chart}, chart)
        data = {"called": called.apply(str)}
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data=data)
        """
    )
    assert set(recording.objects[0]["data"].values()) == {"<unknown>"}
    assert any("Chart/value: providers are not called" in text for text in messages(recording))
