"""Pulumi options and commands during rolling updates (docs/how-to/pulumi-options.md)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from pulumi import automation

from e2e.engine.services import Stack, role

SLOW: dict[str, Any] = {"behavior": "slow", "delay": "2s"}
UP = ("up", "--yes", "--skip-preview", "--color", "never")
COMPONENT = "fusioninfer:index:InferenceService"
#: The service `svc`; tests replace `OPTIONS` by Pulumi options.
PROGRAM = """\
import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from fusioninfer_pulumi import InferenceService

args = yaml.safe_load(open("services.yaml"))
metadata = {"name": args["metadata"]["namespace"]}


def add_team(args):
    if not args.custom or args.type_.startswith("pulumi:"):
        return None
    labels = {**args.props["metadata"].get("labels", {}), "team": "search"}
    props = {**args.props, "metadata": {**args.props["metadata"], "labels": labels}}
    return pulumi.ResourceTransformResult(props, args.opts)


pulumi.runtime.register_resource_transform(add_team)
provider = kubernetes.Provider("other")
kept = pulumi.ResourceOptions(retain_on_delete=True)
namespace = kubernetes.core.v1.NamespacePatch("namespace", metadata=metadata, opts=kept)
service = InferenceService(NAME, args, pulumi.ResourceOptions(provider=provider, OPTIONS))
pulumi.export("status", service.status)
"""


def write_program(stack: Stack, options: str, name: str = "svc") -> None:
    stack.program = PROGRAM.replace("OPTIONS", options).replace("NAME", repr(name))


def find_urn(stack: Stack, name: str) -> str:
    """Return the URN of a resource by its logical name or the end of its URN."""
    (urn,) = [item["urn"] for item in stack.read_resources() if item["urn"].endswith(f":{name}")]
    return str(urn)


@pytest.mark.verifies(
    "With --target, --exclude, --refresh, --run-program, --parallel 1 and --plan, a service "
    "updates replica by replica"
)
def test_partial_commands_update_replica_by_replica(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role())
    names = [f"svc-serve-{index}" for index in range(3)]
    urns = [find_urn(stack, name) for name in names]
    steps: list[tuple[tuple[str, ...], str]] = [
        (("--target", urns[1]), "121"),
        (("--exclude", urns[0]), "133"),
        (("--refresh",), "444"),
        (("--refresh", "--run-program"), "555"),
        (("--parallel", "1"), "666"),
    ]
    for words, tags in steps:
        stack.write(stack.service(role(tag=max(tags), **SLOW)))
        with stack.min_ready_replicas() as min_ready:
            stack.run(*UP, *words).assert_succeeded()
        assert list(stack.lws_tags().values()) == list(tags), words
        assert min_ready["serve"] == 2, words
    assert stack.preview() == {}
    experimental = {"PULUMI_EXPERIMENTAL": "true"}
    stack.write(stack.service(role(tag="7", **SLOW)))
    stack.run("preview", "--save-plan", "plan.json", **experimental).assert_succeeded()
    with stack.min_ready_replicas() as min_ready:
        stack.run(*UP, "--plan", "plan.json", **experimental).assert_succeeded()
    assert (min_ready["serve"], set(stack.lws_tags().values())) == (2, {"7"})
    # Other changes than the plan's are rejected.
    stack.write(stack.service(role(tag="8")))
    planned = stack.run(*UP, "--plan", "plan.json", **experimental).assert_failed()
    assert "violates plan" in planned.text
    assert set(stack.lws_tags().values()) == {"7"}
    stack.deploy(role(tag="7", **SLOW))
    stack.run("refresh", "--yes", "--run-program").assert_succeeded()
    assert stack.preview() == {}
    uids = stack.list_lws_uids()
    replaced = stack.run(*UP, "--target-replace", urns[2]).assert_failed()
    assert "already exists" in replaced.text
    assert (stack.list_lws_uids(), stack.preview()) == (uids, {})
    stack.run("destroy", "--yes", "--skip-preview", "--run-program").assert_succeeded()
    assert stack.list_objects() == []


@pytest.mark.verifies(
    "A stack's transform, a provider, protect, an alias, retainOnDelete and deletedWith apply to "
    "all objects; replaceOnChanges does not"
)
def test_component_options_apply_to_all_objects(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    stack.write(stack.service(role()))
    write_program(stack, "")
    stack.up().assert_succeeded()
    assert {item["metadata"]["labels"]["team"] for item in stack.lws().values()} == {"search"}
    provider = find_urn(stack, "other")
    children = [item for item in stack.read_resources() if f"{COMPONENT}$" in item["urn"]]
    assert {item["provider"].rpartition("::")[0] for item in children} == {provider}
    pods, uids = stack.pods(), stack.list_lws_uids()
    write_program(stack, "protect=True")
    stack.up().assert_succeeded()
    rejected = stack.down().assert_failed()
    assert "protected" in rejected.text
    write_program(stack, "aliases=[pulumi.Alias(name='svc')]", name="llm")
    stack.up().assert_succeeded()
    assert not {"replace", "create-replacement", "delete"} & stack.read_changes().keys()
    assert (stack.pods(), find_urn(stack, "llm-serve-0").count("svc")) == (pods, 0)
    write_program(stack, "replace_on_changes=['*']", name="llm")
    stack.write(stack.service(role(tag="2", **SLOW)))
    with stack.min_ready_replicas() as min_ready:
        stack.up().assert_succeeded()
    assert (min_ready["serve"], stack.list_lws_uids()) == (2, uids)
    write_program(stack, "deleted_with=namespace", name="llm")
    stack.up().assert_succeeded()
    stack.down().assert_succeeded()
    # The namespace was retained, so its objects still exist.
    assert (stack.list_lws_uids(), stack.read_resources()) == (uids, [])
    write_program(stack, "retain_on_delete=True", name="llm")
    # The provider's argument is protected too.
    upsert = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true"}
    stack.up(**upsert).assert_succeeded()
    assert stack.preview(**upsert) == {}
    stack.down().assert_succeeded()
    assert (stack.list_lws_uids(), stack.read_resources()) == (uids, [])


@pytest.mark.verifies("`pulumi state move` moves a service to another stack without restarts")
def test_state_move_restarts_no_pod(stack: Stack, project: Callable[..., Stack]) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role())
    pods, component = stack.pods(), find_urn(stack, f"{COMPONENT}::svc")
    other = project("other", backend=stack.state)
    name = f"organization/{other.folder.name}/dev"
    source = f"organization/{stack.folder.name}/dev"
    moved = stack.run("state", "move", "--yes", "--source", source, "--dest", name, component)
    moved.assert_succeeded()
    other.deploy(role())
    assert (other.preview(), stack.pods()) == ({}, pods)
    stack.write()
    stack.up().assert_succeeded()
    assert stack.pods() == pods
    # The service updates replica by replica in its new stack.
    with stack.min_ready_replicas() as min_ready:
        other.deploy(role(tag="2", **SLOW))
    assert (min_ready["serve"], set(stack.lws_tags().values())) == (2, {"2"})


@pytest.mark.verifies(
    "Ctrl-C ends a waiting update, a second one immediately; a concurrent destroy is rejected; "
    "the next update continues"
)
@pytest.mark.parametrize("signals", [1, 2])
def test_update_continues_after_interruption(stack: Stack, signals: int) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role())
    stack.write(stack.service(role(tag="2", behavior="unpullable")))
    process = stack.start(*UP)
    stack.cluster.wait(lambda: "2" in stack.lws_tags().values(), 60, "the first replica to change")
    assert "locked" in stack.down().assert_failed().text
    for _ in range(signals):
        # A terminal also signals all processes of the group.
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1)
    text, _ = process.communicate(timeout=60)
    assert process.returncode != 0, text
    assert sorted(stack.lws_tags().values()) == ["1", "1", "2"]
    stack.run("cancel", "--yes")
    stack.deploy(role(tag="3"))
    assert set(stack.lws_tags().values()) == {"3"}
    assert stack.preview() == {}
    stack.down().assert_succeeded()
    assert stack.list_objects() == []


@pytest.mark.verifies(
    "The Automation API returns progress as events and a failure as an error with its reason; with "
    "--continue-on-error the other service is created anyway"
)
def test_automation_api_reports_progress_and_failures(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    short = {"timeout": "20s"}
    bad = stack.service(
        role(replicas=1, behavior="unpullable"), name="bad", rollout=short, wait=short
    )
    good = stack.service(role(replicas=2, **SLOW))
    app = automation.select_stack(
        f"organization/{stack.folder.name}/dev",
        work_dir=str(stack.folder),
        opts=automation.LocalWorkspaceOptions(env_vars=stack.environment),
    )
    events: list[automation.EngineEvent] = []
    stack.write(bad, good)
    with pytest.raises(automation.CommandError, match=r"(?s)bad-serve-0.*ImagePullBackOff"):
        app.up(on_event=events.append, continue_on_error=True)
    messages = [event.diagnostic_event.message for event in events if event.diagnostic_event]
    assert any("svc-serve" in message for message in messages), messages
    assert stack.count_ready()["serve"] == 2
    stack.write(good)
    result = app.up()
    assert result.summary.result == "succeeded"
    assert result.outputs["status"].value["components"]["serve"]["phase"] == "Running"
    assert app.preview().change_summary.keys() == {automation.OpType.SAME}
    app.destroy()
    assert stack.list_objects() == []
