"""A role's `parallelism`: arguments, pods of a replica, launcher, and rejected values."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from fusioninfer_pulumi.engines.command_flags import get_flag_value, has_flag
from fusioninfer_pulumi.engines.engine_commands import parse_command
from tests.samples import (
    container,
    nodes,
    plan_of,
    pod_templates,
    problems,
    rendered,
    role,
    service,
    template,
)


def split(fields: dict[str, Any], gpus: Any = 8, multinode: Any = None, **more: Any) -> Any:
    """Return a service whose role sets `parallelism`; `more` goes to its container."""
    pod = template(container(gpus=gpus, **more))
    return service(role(parallelism=fields, template=pod, multinode=multinode))


def arguments(manifest: Any) -> list[tuple[str, ...]]:
    """Return the arguments of the engines of leaders and workers."""
    return [
        parse_command(pod_template["spec"]["containers"][0]).arguments
        for pod_template in pod_templates(manifest)
    ]


def test_data_parallel_ranks_span_the_pods_of_a_replica() -> None:
    manifest = split({"tensor": 4, "data": 8, "dataLocal": 2, "dataRPCPort": 5555})
    plan = plan_of(manifest)
    assert (plan.roles[0].nodes, plan.total_pods, plan.total_accelerators) == (4, 4, 32)
    assert plan.gang is not None
    assert plan.gang.min_member == 4
    leader, worker = arguments(manifest)
    for result in (leader, worker):
        assert get_flag_value(result, "--data-parallel-rpc-port") == "5555"
        assert get_flag_value(result, "--data-parallel-size") == "8"
        assert get_flag_value(result, "--data-parallel-size-local") == "2"
    assert get_flag_value(leader, "--data-parallel-address") == "$(POD_IP)"
    assert not has_flag(leader, "--headless")
    assert has_flag(worker, "--headless")
    env = pod_templates(manifest)[0]["spec"]["containers"][0]["env"]
    assert env == [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def test_explicit_launcher_takes_precedence() -> None:
    value = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader, _ = arguments(split(value, multinode=nodes(2, launcher="multiprocessing")))
    assert get_flag_value(leader, "--nnodes") == "2"
    # vLLM computes the node's share itself.
    assert not has_flag(leader, "--data-parallel-size-local", "--data-parallel-address")
    leader, _ = arguments(split(value, multinode=nodes(2, launcher="ray")))
    assert get_flag_value(leader, "--data-parallel-backend") == "ray"


def test_launcher_is_chosen_without_counting_the_nodes_again() -> None:
    chosen = {"launcher": "multiprocessing"}
    for sizes in ({"tensor": 8, "pipeline": 2}, {"tensor": 4, "data": 4, "dataLocal": 2}):
        manifest = split(sizes, multinode=chosen)
        assert problems(manifest) == []
        assert rendered(manifest) == rendered(split(sizes, multinode={**chosen, "nodeCount": 2}))
        assert [item.nodes for item in plan_of(manifest).roles] == [2]


def test_worker_without_command_runs_the_leaders() -> None:
    value = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader = template(container(gpus=8))
    worker = template(container(gpus=8, args=None))
    manifest = service(
        role(parallelism=value, template=None, leaderTemplate=leader, workerTemplate=worker)
    )
    first, second = arguments(manifest)
    assert second[: len(first) - 2] == first[:-2]
    assert has_flag(second, "--headless")


def test_leader_and_worker_commands_are_kept() -> None:
    value = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader, worker = (template(container(gpus=8, args=["--model", "m", fields]))
                      for fields in ("--enforce-eager", "--headless"))  # fmt: skip
    manifest = service(
        role(parallelism=value, template=None, leaderTemplate=leader, workerTemplate=worker)
    )
    first, second = arguments(manifest)
    assert first[:3] == ("--model", "m", "--enforce-eager")
    assert second[:3] == ("--model", "m", "--headless")
    for result in (first, second):
        assert get_flag_value(result, "--data-parallel-size-local") == "2"
        assert not has_flag(result, "--data-parallel-start-rank")


@given(
    tensor=st.sampled_from((None, 1, 2, 4)),
    local=st.sampled_from((1, 2)),
    pods=st.sampled_from((1, 2, 3)),
    form=st.sampled_from(("args", "command", "script")),
)
def test_parallelism_arguments_are_read_back(tensor: Any, local: int, pods: int, form: str) -> None:
    sizes = {"tensor": tensor, "data": local * pods, "dataLocal": local}
    forms: dict[str, dict[str, Any]] = {
        "args": {"args": ["--model", "m"]},
        "command": {"command": ["vllm", "serve", "m"], "args": None},
        "script": {"command": ["sh", "-c", "vllm serve m"], "args": None},
    }
    words = forms[form]
    value = {name: size for name, size in sizes.items() if size is not None}
    manifest = split(value, gpus=(tensor or 1) * local, **words)
    for pod_template in pod_templates(manifest):
        read = parse_command(pod_template["spec"]["containers"][0]).parallelism
        assert read is not None
        assert (read.tensor, read.data) == (tensor or 1, local * pods)
        assert read.count_accelerators(pods) == (tensor or 1) * local * pods
    assert plan_of(manifest).roles[0].nodes == pods
