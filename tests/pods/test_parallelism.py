"""A role's `parallelism`: arguments, pods of a replica, launcher, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusioninfer_pulumi.engines.command_flags import get_flag_value, has_flag
from fusioninfer_pulumi.engines.engine_commands import read_command
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
    warnings,
)

SGLANG = {"image": "lmsysorg/sglang:v0.5.3", "args": ["--model-path", "m"]}
ARGS = "roles[0].template.spec.containers[0].args"


def split(given: dict[str, Any], gpus: Any = 8, multinode: Any = None, **more: Any) -> Any:
    """A service whose one role states `parallelism`; `more` goes to its container."""
    pod = template(container(gpus=gpus, **more))
    return service(role(parallelism=given, template=pod, multinode=multinode))


def arguments(manifest: Any) -> list[tuple[str, ...]]:
    """What the engines of leaders and workers are started with."""
    return [
        read_command(each["spec"]["containers"][0]).arguments for each in pod_templates(manifest)
    ]


def test_copies_span_the_pods_of_a_replica() -> None:
    manifest = split({"tensor": 4, "data": 8, "dataLocal": 2, "dataRPCPort": 5555})
    plan = plan_of(manifest)
    assert (plan.roles[0].nodes, plan.total_pods, plan.total_accelerators) == (4, 4, 32)
    assert plan.gang is not None
    assert plan.gang.min_member == 4
    leader, worker = arguments(manifest)
    for made in (leader, worker):
        assert get_flag_value(made, "--data-parallel-rpc-port") == "5555"
        assert get_flag_value(made, "--data-parallel-size") == "8"
        assert get_flag_value(made, "--data-parallel-size-local") == "2"
    assert get_flag_value(leader, "--data-parallel-address") == "$(POD_IP)"
    assert not has_flag(leader, "--headless")
    assert has_flag(worker, "--headless")
    env = pod_templates(manifest)[0]["spec"]["containers"][0]["env"]
    assert env == [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def test_explicit_launcher_takes_precedence() -> None:
    given = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader, _ = arguments(split(given, multinode=nodes(2, launcher="multiprocessing")))
    assert get_flag_value(leader, "--nnodes") == "2"
    # vLLM works the share of a node out by itself here.
    assert not has_flag(leader, "--data-parallel-size-local", "--data-parallel-address")
    leader, _ = arguments(split(given, multinode=nodes(2, launcher="ray")))
    assert get_flag_value(leader, "--data-parallel-backend") == "ray"


def test_launcher_is_chosen_without_counting_the_nodes_again() -> None:
    chosen = {"launcher": "multiprocessing"}
    for sizes in ({"tensor": 8, "pipeline": 2}, {"tensor": 4, "data": 4, "dataLocal": 2}):
        manifest = split(sizes, multinode=chosen)
        assert problems(manifest) == []
        assert rendered(manifest) == rendered(split(sizes, multinode={**chosen, "nodeCount": 2}))
        assert [each.nodes for each in plan_of(manifest).roles] == [2]


def test_field_that_is_named_for_an_image_without_ray_is_the_launcher() -> None:
    newer = {"image": "vllm/vllm-openai:v0.22.0"}
    (said,) = warnings(split({"tensor": 8, "pipeline": 2}, **newer))
    assert said.startswith("warning: roles[0].multinode.launcher: the image vllm/vllm-openai:v0.22")
    chosen = {"launcher": "multiprocessing"}
    assert warnings(split({"tensor": 8, "pipeline": 2}, multinode=chosen, **newer)) == []


def test_worker_without_command_runs_the_leaders() -> None:
    given = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader = template(container(gpus=8))
    worker = template(container(gpus=8, args=None))
    manifest = service(
        role(parallelism=given, template=None, leaderTemplate=leader, workerTemplate=worker)
    )
    first, second = arguments(manifest)
    assert second[: len(first) - 2] == first[:-2]
    assert has_flag(second, "--headless")


def test_two_commands_are_kept() -> None:
    given = {"tensor": 4, "data": 4, "dataLocal": 2}
    leader, worker = (template(container(gpus=8, args=["--model", "m", own]))
                      for own in ("--enforce-eager", "--headless"))  # fmt: skip
    manifest = service(
        role(parallelism=given, template=None, leaderTemplate=leader, workerTemplate=worker)
    )
    first, second = arguments(manifest)
    assert first[:3] == ("--model", "m", "--enforce-eager")
    assert second[:3] == ("--model", "m", "--headless")
    for made in (first, second):
        assert get_flag_value(made, "--data-parallel-size-local") == "2"
        assert not has_flag(made, "--data-parallel-start-rank")


REFUSED: list[tuple[Any, list[str]]] = [
    (
        split({"data": 7, "dataLocal": 2}),
        ["roles[0].parallelism.dataLocal: must divide data (7), got 2: 7 / 2 leaves 1"],
    ),
    (
        split({"dataLocal": 2}),
        ["roles[0].parallelism.dataLocal: has no effect without data; remove it"],
    ),
    (
        split({"pipeline": 2, "data": 4}),
        [("roles[0].parallelism.pipeline: together with data (4) does not determine the pods "
         "per replica; set multinode.nodeCount")],
    ),
    (
        split({"tensor": 4, "data": 4, "dataLocal": 2}, multinode=nodes(3)),
        [("roles[0].parallelism.dataLocal: makes replicas of data 4 / dataLocal 2 = 2 pods, "
         "but multinode.nodeCount is 3; remove one of them")],
    ),
    (
        split({"tensor": 8}, multinode=nodes(3)),
        [("roles[0].parallelism: tensor 8 = 8 accelerators cannot be divided among "
         "multinode.nodeCount 3: 2 would be left")],
    ),
    (
        split({"tensor": 8}, args=["--model", "m", "--tensor-parallel-size=4"]),
        [f"{ARGS}: --tensor-parallel-size 4 conflicts with parallelism.tensor (8); remove one"],
    ),
    (
        split({"tensor": 8}, args=["--model", "m", "--tensor-parallel-size 4"]),
        [f"{ARGS}: --tensor-parallel-size 4 conflicts with parallelism.tensor (8); remove one"],
    ),
    (
        split({"expert": False}, gpus=1, args=["--model", "m", "--enable_expert_parallel"]),
        [f"{ARGS}: --enable-expert-parallel conflicts with parallelism.expert (false); remove one"],
    ),
    (
        split({"tensor": 8}, image="x", command=["/serve"], args=None),
        [("roles[0].parallelism: sets arguments of vLLM or SGLang, but the container runs "
         "neither vLLM nor SGLang; write the arguments yourself, with multinode")],
    ),
    (
        split({"tensor": 2, "data": 4, "dataLocal": 2}, gpus=4, **SGLANG),
        [(f"{ARGS}: SGLang does not run --dp-size 4 on 2 nodes without data parallel attention "
         "(--enable-dp-attention, or --attn-dp-size in newer releases)")],
    ),
    (
        split({"tensor": 16}),
        [("roles[0].parallelism: tensor 16 needs 16 accelerators in each pod, but the pod asks for "
         "8")],
    ),
    (
        service(role("epp-less", "router", template=None, parallelism={"tensor": 1}), role()),
        ["roles[0].parallelism: a router runs no model; remove it (this role is a router)"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "expected"), REFUSED)
def test_invalid_parallelism_is_rejected(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("component", "given", "gpus", "arithmetic"),
    [
        ("decoder", {"tensor": 4, "data": 8, "dataLocal": 4}, "4", "tensor 4 x dataLocal 4 = 16"),
        (
            "prefiller",
            {"tensor": 4, "data": 16, "dataLocal": 8},
            "8",
            "tensor 4 x dataLocal 8 = 32",
        ),
    ],
)
def test_kserve_document_example_is_rejected(
    component: str, given: dict[str, int], gpus: str, arithmetic: str
) -> None:
    made = role(
        component_type=component, parallelism=given, template=template(container(gpus=gpus))
    )
    assert problems(service(made)) == [
        f"roles[0].parallelism: {arithmetic} accelerators in each pod, but the pod asks for {gpus}"
    ]


@pytest.mark.parametrize(
    ("given", "count", "arithmetic"),
    [
        ({"tensor": 4, "pipeline": 3}, 2, "tensor 4 x pipeline 3 over 2 pods = 6"),
        ({"tensor": 4, "pipeline": 2}, None, "tensor 4 x pipeline 2 over 2 pods = 4"),
        ({"tensor": 16}, 2, "tensor 16 over 2 pods = 8"),
        ({"tensor": 4, "pipeline": 2}, 1, "tensor 4 x pipeline 2 = 8"),
        ({"tensor": 2, "data": 4}, 2, "tensor 2 x data 4 over 2 pods = 4"),
        ({"tensor": 2, "pipeline": 2, "data": 4, "dataLocal": 2}, 2,
         "tensor 2 x pipeline 2 x dataLocal 2 = 8"),
    ],
)  # fmt: skip
def test_arithmetic_names_the_users_sizes(
    given: dict[str, int], count: int | None, arithmetic: str
) -> None:
    several = {} if count is None else {"multinode": nodes(count)}
    assert problems(split(given, gpus=3, **several)) == [
        f"roles[0].parallelism: {arithmetic} accelerators in each pod, but the pod asks for 3"
    ]


@pytest.mark.parametrize(
    ("given", "count", "at"),
    [
        ({"data": 5, "dataLocal": 4}, None, ".dataLocal: must divide data (5), got 4"),
        ({"tensor": 4, "data": 8, "dataLocal": 4}, 3, ".dataLocal: makes replicas of data 8"),
        ({"tensor": 4, "pipeline": 2, "data": 2}, None, ".pipeline: together with data (2) does"),
        ({"tensor": 4, "dataLocal": 4}, None, ".dataLocal: has no effect without data"),
    ],
)
def test_rejected_sizes_have_one_finding(given: dict[str, int], count: int | None, at: str) -> None:
    several = {} if count is None else {"multinode": nodes(count)}
    (told,) = problems(split(given, gpus=1, **several))
    assert told.startswith(f"roles[0].parallelism{at}")


def test_idle_accelerators_and_unread_arguments_are_warned_of() -> None:
    idle = f"warning: {ARGS}: --tensor-parallel-size 4 uses 4 accelerators, but the pod has 8: "
    assert warnings(split({"tensor": 4})) == [f"{idle}4 stay idle"]
    script = split({"tensor": 8}, command=["sh", "-c", "vllm serve m --x y $MORE"], args=None)
    (one,) = warnings(script)
    assert one.startswith("warning: roles[0].parallelism: arguments that cannot be read may")


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
    given = {name: size for name, size in sizes.items() if size is not None}
    manifest = split(given, gpus=(tensor or 1) * local, **words)
    for each in pod_templates(manifest):
        read = read_command(each["spec"]["containers"][0]).parallelism
        assert read is not None
        assert (read.tensor, read.data) == (tensor or 1, local * pods)
        assert read.devices(pods) == (tensor or 1) * local * pods
    assert plan_of(manifest).roles[0].nodes == pods
