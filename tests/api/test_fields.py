"""Accepted fields, in both spellings, with Outputs as values."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from profiles import examples
from rows import each_row
from samples import (
    assert_one_line_errors,
    container,
    is_plain_data,
    nodes,
    prefill_decode,
    problems,
    rendered,
    role,
    service,
    template as pod,
)
from strategies import services

from fusioninfer_pulumi.api import InferenceServiceArgs, Launcher, RestartPolicy
from fusioninfer_pulumi.checks.plan_service import add_collision_findings, plan_service
from fusioninfer_pulumi.findings import OUTPUT_HINT, InvalidServiceError, filter_errors
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.loading import load, loads
from fusioninfer_pulumi.loading.validate import validate_document
from fusioninfer_pulumi.plan.service_objects import render

SERVING = "roles[0].template.spec.containers[0]"


@given(services())
@examples(0.3)
def test_python_and_yaml_names_give_equal_services(manifest: dict[str, Any]) -> None:
    (args,) = load(manifest)
    spoken = args.model_dump(exclude_unset=True)
    assert InferenceServiceArgs(**spoken) == args
    metadata = {key: spoken.pop(key) for key in manifest["metadata"]}
    assert InferenceServiceArgs.model_validate({"metadata": metadata, "spec": spoken}) == args
    assert InferenceServiceArgs.model_validate(manifest) == args


@given(services())
@examples(0.25)
def test_dumped_manifest_loads_to_the_same_service(manifest: dict[str, Any]) -> None:
    assert loads(yaml.safe_dump(manifest, allow_unicode=True)) == load(manifest)


def test_defaults_match_the_design() -> None:
    (args,) = load(service())
    (only,) = args.roles
    assert (args.namespace, args.labels, args.annotations) == ("default", {}, {})
    assert (only.replicas, only.multinode, only.restart_policy) == (1, None, None)
    strategy = args.scheduling_strategy
    assert (strategy.scheduler_name, strategy.queue) == (None, None)
    assert strategy.gang_policy.model_dump(mode="json") == {
        "mode": "Auto",
        "backend": "Volcano",
        "minRoleReplicas": None,
        "requiredReplicas": "Any",
        "minResources": False,
        "networkTopology": None,
    }


def test_name_defaults_to_the_logical_name() -> None:
    args = InferenceServiceArgs.model_validate({"roles": [role()]})
    assert args.name is None
    assert plan_service(args, "from-pulumi").service == "from-pulumi"
    assert [str(error) for error in filter_errors(plan_service(args, "Not_A_Name").findings)] == [
        (
            "metadata.name: must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most 63 "
            'characters), got "Not_A_Name"'
        )
    ]


def test_enum_members_are_accepted() -> None:
    manifest = service(
        role(multinode=nodes(2, launcher=Launcher.RAY), restartPolicy=RestartPolicy.NONE)
    )
    (args,) = load(manifest)
    assert args.roles[0].restart_policy is RestartPolicy.NONE


def test_models_are_immutable() -> None:
    (args,) = load(service())
    with pytest.raises(ValueError, match="frozen"):
        args.namespace = "other"


Make = Callable[..., Any]


def test_outputs_are_kept_in_rendered_objects(output: Make) -> None:
    image, value, note, host, fields, space = (output(text) for text in "abcdef")
    secret = output("hidden", secret=True)
    serving = container(
        image=image,
        command=["/app/serve"],
        args=[output("--any"), "--thing"],
        env=[{"name": "A", "value": value}, {"name": "TOKEN", "value": secret}],
    )
    manifest = service(
        role(template=pod(serving, metadata={"annotations": {"note": note}}, hostname=host)),
        metadata={"namespace": space, "annotations": {"own": fields}},
    )
    assert problems(manifest) == []
    workload, entry = rendered(manifest)
    template = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    (built,) = template["spec"]["containers"]
    assert built["image"] is image
    assert [item["value"] for item in built["env"]] == [value, secret]
    assert built["args"][1] == "--thing"
    assert is_output(built["args"][0])
    assert template["metadata"]["annotations"]["note"] is note
    assert template["spec"]["hostname"] is host
    assert workload["metadata"]["namespace"] is entry["metadata"]["namespace"] is space
    assert workload["metadata"]["annotations"] == {"own": fields}


def test_revision_does_not_depend_on_values_of_outputs(output: Make) -> None:
    def revision(image: Any) -> str:
        manifest = service(role(template=pod(container(image=image))))
        return rendered(manifest)[0]["metadata"]["labels"]["fusioninfer.io/revision"]

    assert revision(output("a")) == revision(output("b"))
    assert revision(output("a")) != revision("a")


LIFTED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "metadata.name": lambda out: service(name=out),
    "roles": lambda out: {**service(), "spec": {"roles": out}},
    "roles[0]": service,
    "roles[0].name": lambda out: service(role(out)),
    "roles[0].componentType": lambda out: service(role(component_type=out)),
    "roles[0].replicas": lambda out: service(role(replicas=out)),
    "roles[0].port": lambda out: service(role(port=out)),
    "roles[0].container": lambda out: service(role(container=out)),
    "roles[0].restartPolicy": lambda out: service(role(restartPolicy=out)),
    "roles[0].multinode.nodeCount": lambda out: service(role(multinode=nodes(out))),
    "roles[0].template": lambda out: service(role(template=out)),
    "roles[0].template.spec": lambda out: service(role(template={"spec": out})),
    "roles[0].template.spec.containers": lambda out: service(
        role(template={"spec": {"containers": out}})
    ),
    SERVING: lambda out: service(role(template=pod(out))),
    f"{SERVING}.name": lambda out: service(role(template=pod(container(out)))),
    f"{SERVING}.args": lambda out: service(role(template=pod(container(args=out)))),
    f"{SERVING}.env": lambda out: service(role(template=pod(container(env=out)))),
    f"{SERVING}.resources.limits[nvidia.com/gpu]": lambda out: service(
        role(template=pod(container(gpus=out)))
    ),
    "roles[0].template.spec.schedulerName": lambda out: service(
        role(template=pod(schedulerName=out))
    ),
    "roles[0].template.spec.overhead.cpu": lambda out: service(
        role(template=pod(overhead={"cpu": out}))
    ),
    "schedulingStrategy.schedulerName": lambda out: service(
        schedulingStrategy={"schedulerName": out}
    ),
    "schedulingStrategy.gangPolicy.mode": lambda out: service(
        schedulingStrategy={"gangPolicy": {"mode": out}}
    ),
    "schedulingStrategy.gangPolicy.minRoleReplicas.decode": lambda out: prefill_decode(
        schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"decode": out}}}
    ),
}


@each_row("path", LIFTED)
def test_output_in_place_of_structure_names_the_fix(path: str, output: Make) -> None:
    (problem,) = problems(LIFTED[path](output("x")))
    assert problem.startswith(f"{path}: ")
    assert OUTPUT_HINT in problem


@pytest.mark.parametrize(
    ("serving", "multinode", "path"),
    [
        ({"args": ["--model", "OUT"]}, None, "args[1]"),
        ({"command": ["vllm", "serve", "OUT"], "args": None}, None, "command[2]"),
        ({"args": ["--model", "OUT"]}, nodes(2), "args[1]"),
        ({"command": ["/app/serve"], "args": ["OUT"]}, nodes(2, launcher="ray"), "args[0]"),
    ],
)
def test_output_in_parsed_arguments_is_rejected(
    serving: dict[str, Any], multinode: Any, path: str, output: Make
) -> None:
    words = {
        key: [output("x") if word == "OUT" else word for word in words or ()]
        for key, words in serving.items()
    }
    manifest = service(role(multinode=multinode, template=pod(container(**words))))
    assert problems(manifest) == [f"{SERVING}.{path}: {OUTPUT_HINT}"]


JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 10**9, 10**30, "", "x", "Ä", "a/b", "1Gi", "\n", "\ud800",
    [], {}, [None], [1], ["a"], [[]], [{}], {"a": 1}, {1: 2}, {None: 1}, {1.5: 2}, {"name": None},
    {"name": "vllm"}, float("nan"), b"x", {1, 2}, (1, 2), 8000, "http", "router", "decoder",
    ["--port", "x"], ["sh", "-c"], ["sh", "-c", "vllm serve 'x"], ["vllm serve $(x"], object(),
    "--tensor-parallel-size=abc", "LeaderReady",
)  # fmt: skip
RULE = re.compile(r"[a-z0-9]+(-[a-z0-9]+){0,5}")
EXTRA = ("x", "name", 1, None, 1.5, "containers", "resources", "limits", "overhead")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*at, key)
            yield from places(item, (*at, key))


def mutated(manifest: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    broken = copy.deepcopy(manifest)
    for _ in range(chance.choice((1, 1, 2, 3))):
        *parents, last = chance.choice(list(places(broken)))
        holder = broken
        for key in parents:
            holder = holder[key]
        way = chance.random()
        if way < 0.7:
            holder[last] = copy.deepcopy(chance.choice(JUNK))
        elif way < 0.85:
            del holder[last]
        elif isinstance(holder, dict):
            holder[chance.choice(EXTRA)] = copy.deepcopy(chance.choice(JUNK))
        if not broken:
            return broken
    return broken


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"podAnnotations": {"example.com/owner": "\ud800"}}, "podAnnotations[example.com/owner]"),
        ({"endpointPicker": {"args": ["\ud800"]}}, "endpointPicker.args[0]"),
    ],
)
def test_half_of_a_surrogate_pair_is_rejected(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidServiceError) as rejected:
        load(service(role(**fields)))
    assert f"roles[0].{path}" in [finding.path for finding in rejected.value.findings]


@given(services(), st.integers(0, 2**32))
@examples(0.5)
def test_mutated_service_is_rejected_or_renders(manifest: Any, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        broken = mutated(manifest, chance)
        try:
            (args,) = load(broken)
            (plan,) = add_collision_findings([plan_service(args)])
            assert all(is_plain_data(item) for item in render(plan))
        except InvalidServiceError as rejected:
            assert_one_line_errors(rejected.findings)
        # The rest of a rejected document can be planned.
        problems(broken)
        wrong = [
            finding.rule
            for finding in validate_document(broken)[1]
            if not RULE.fullmatch(finding.rule)
        ]
        assert wrong == []
