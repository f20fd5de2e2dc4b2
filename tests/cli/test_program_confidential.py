"""Secret values reach no error, no log message and no stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import messages, plans
from profiles import slow_unless

from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

Run = Callable[..., Recording]

RAISING = {
    "plain": """
        token = "hunter2-long"
        pulumi.Output.secret(token)
        raise ValueError(f"bad token {token}")
        """,
    "applied": """
        pulumi.Output.secret("hunter2-long").apply(lambda token: {}[token])
        """,
    "derived": """
        url = pulumi.Output.concat("https://u:", pulumi.Output.secret("hunter2-long"), "@host")
        url.apply(lambda url: int(url))
        """,
    "quoted": """
        token = "hunter2-long\\n'second'"
        pulumi.Output.secret(token)
        raise ValueError([token])
        """,
    "of config": """
        import json
        config = pulumi.Config()
        config.require_secret("token").apply(lambda token: json.loads(token))
        raise ValueError(config.require("token"))
        """,
    "of an output": """
        token = pulumi.Output.from_input("hunter2-long")
        pulumi.Output.secret({"a": [token]}).apply(lambda held: {}[held["a"][0]])
        """,
    "of a Secret": """
        k8s.core.v1.Secret("s", metadata={"name": "s"}, string_data={"token": "hunter2-long"})
        raise ValueError("hunter2-long")
        """,
    "property": """
        pulumi.Output.secret("hunter2-long")
        k8s.apiextensions.CustomResource(
            "a", api_version="x/v1", kind="A", spec={"hunter2-long": object()})
        """,
    "source line": """
        pulumi.Output.secret("hunter2-" + str(1 / 0) + "long")
        """,
}


@pytest.mark.parametrize(
    "way", slow_unless(("of config", "of an output", "property").__contains__, RAISING)
)
def test_no_error_holds_a_secret(run: Run, tmp_path: Path, way: str) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {app:token: hunter2-long}\n")
    with pytest.raises(InvalidServiceError) as caught:
        run(RAISING[way])
    assert "hunter2" not in str(caught.value)
    assert "second" not in str(caught.value)


def test_secrets_are_in_errors_on_demand(run: Run) -> None:
    with pytest.raises(InvalidServiceError, match="hunter2-long"):
        run(RAISING["plain"], show_secrets=True)


def test_no_message_and_no_stream_holds_a_secret(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    recording = run(
        """
        import logging, sys
        token = pulumi.Output.secret("hunter2-long")

        def tell(value):
            print("printed", value)
            print("error", value, file=sys.stderr)
            logging.warning("logged %s", value)
            sys.stdout.writelines([value, "\\n"])
            pulumi.log.warn(f"warned {value}")
            pulumi.log.info(f"informed {value}")
            pulumi.log.error(f"failed {value}")

        token.apply(tell)
        """
    )
    printed = capfd.readouterr().err
    assert "hunter2" not in printed
    assert {"printed <secret>", "error <secret>", "informed <secret>"} <= set(printed.splitlines())
    assert messages(recording) == ("warned <secret>", "error: failed <secret>")


def test_output_in_a_plan_is_recognized_without_pulumi(run: Run) -> None:
    recording = run(
        """
        from fusioninfer_pulumi import InferenceService
        container = {"name": "vllm", "image": pulumi.Output.secret("vllm/vllm-openai:v0.11.0"),
                     "command": ["vllm", "serve", "m"]}
        roles = [{"name": "a", "componentType": "worker",
                  "template": {"spec": {"containers": [container]}}}]
        InferenceService("svc", {"roles": roles})
        """
    )
    (plan,) = plans(recording)
    (role,) = plan.roles
    image = role.pods.leader.template["spec"]["containers"][0]["image"]
    assert is_output(image)
    assert image != type(image)()
