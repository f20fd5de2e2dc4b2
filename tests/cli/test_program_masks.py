"""Secret and unknown values in the objects of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError

Run = Callable[..., Recording]


def manifests(recording: Recording) -> list[dict[str, Any]]:
    return list(recording.objects)


def test_missing_key_of_the_program_is_an_error(run: Run) -> None:
    with pytest.raises(InvalidServiceError, match="KeyError: 'uid'"):
        run("pulumi.Output.from_input({'size': 1}).apply(lambda own: own['uid'])\n")


def test_program_run_restores_outputs(run: Run) -> None:
    before = pulumi.Output.apply
    run("""k8s.core.v1.ConfigMap("a", metadata={"name": "a"})""")
    assert pulumi.Output.apply is before


SECRETS = """
    config = pulumi.Config()
    secret = pulumi.Output.secret("hunter2")
    k8s.core.v1.Secret("a", metadata={"name": "a"}, string_data={
        "password": secret,
        "url": pulumi.Output.concat("https://user:", secret, "@host"),
        "plain": "text",
    })
    k8s.core.v1.Secret("b", metadata={"name": pulumi.Output.secret("b")},
                       string_data=pulumi.Output.secret({"one": "1"}))
    k8s.apiextensions.CustomResource("c", api_version="x.io/v1", kind="C",
        metadata=pulumi.Output.secret({"name": "c"}),
        spec={"list": [secret, "open"], "deep": {"number": pulumi.Output.secret(3)}})
    """


def test_secrets_are_masked(run: Run) -> None:
    first, second, third = manifests(run(SECRETS))
    # pulumi_kubernetes makes all data of a Secret secret; its keys are shown.
    assert first["stringData"] == {"password": "<secret>", "plain": "<secret>", "url": "<secret>"}
    assert second["metadata"] == {"name": "<secret>"}
    assert second["stringData"] == {"one": "<secret>"}
    assert third["metadata"] == {"name": "<secret>"}
    assert third["spec"] == {"deep": {"number": "<secret>"}, "list": ["<secret>", "open"]}


def test_secrets_are_shown_on_demand(run: Run) -> None:
    first, second, third = manifests(run(SECRETS, show_secrets=True))
    assert first["stringData"] == {
        "password": "hunter2",
        "plain": "text",
        "url": "https://user:hunter2@host",
    }
    assert second["metadata"] == {"name": "b"}
    assert second["stringData"] == {"one": "1"}
    assert third["metadata"] == {"name": "c"}
    assert third["spec"] == {"deep": {"number": 3}, "list": ["hunter2", "open"]}


def test_secret_that_is_unknown_is_masked(run: Run) -> None:
    recording = run(
        """
        password = pulumi.StackReference("acme/vault/prod").get_output("password")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "password": pulumi.Output.secret(password)})
        """
    )
    # The oldest SDK forgets that an unknown value is secret.
    (actual,) = manifests(recording)
    assert actual["data"]["password"] in {"<secret>", "<unknown>"}
