"""What is refused while reading, whatever it is about: all at once, in one line each, once."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, nodes, problems, role, service, template

from fusioninfer_pulumi.api import ComponentType, InferenceServiceArgs, RoleArgs
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, loads

NAME = "must be a name of a-z, 0-9 and - that starts and ends with a letter or digit"
FIRST = "must be a name of a-z, 0-9 and - that starts with a letter and ends with a letter or digit"
POD = "roles[0].template.spec"
SERVING = f"{POD}.containers[0]"
KEYS = ", ".join(sorted(field.alias or name for name, field in RoleArgs.model_fields.items()))


def without(manifest: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name != key}


def pod_template(name: str) -> dict[str, Any]:
    return template(container(name))


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ([1], ["must be a mapping, got [1]"]),
        ("text", ['must be a mapping, got "text"']),
        ({**service(), "kind": "Deployment"}, ['kind: must be InferenceService, got "Deployment"']),
        (
            {**service(), "apiVersion": "v1"},
            ['apiVersion: must be fusioninfer.io/v1alpha1, got "v1"'],
        ),
        (
            {"metadata": {}},
            [
                "apiVersion: is required, must be fusioninfer.io/v1alpha1",
                "kind: is required, must be InferenceService",
            ],
        ),
        (without(service(), "metadata"), ["metadata: is required"]),
        (without(service(), "spec"), ["spec: is required"]),
        ({**service(), "metadata": {}}, ["metadata.name: is required"]),
        (service(name="My_Service"), [f'metadata.name: {FIRST}, got "My_Service"']),
        (
            service(metadata={"namespace": "Team A"}),
            ['metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got "Team A"'],
        ),
        (
            service(metadata={"namespace": ""}),
            ['metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got ""'],
        ),
        (
            service(metadata={"labels": {"fusioninfer.io/anything": "x"}}),
            [
                "metadata.labels[fusioninfer.io/anything]: is set by fusioninfer-pulumi; remove it",
            ],
        ),
        (
            service(metadata={"labels": {"bad key": "x"}}),
            ['metadata.labels: "bad key" is no valid Kubernetes label or annotation key'],
        ),
        (service(metadata={"labels": {"a": 1}}), ["metadata.labels: a: must be a string, got 1"]),
        (
            service(metadata={"annotations": {"bad key": "x"}}),
            ['metadata.annotations: "bad key" is no valid Kubernetes label or annotation key'],
        ),
        (
            service(metadata={"annotations": {"a": 1}}),
            ["metadata.annotations.a: must be a string, got 1"],
        ),
    ],
)
def test_the_envelope_names_the_service(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (service(rolls=[]), ["rolls: unknown key, did you mean roles?"]),
        (service(role(replica=2)), ["roles[0].replica: unknown key, did you mean replicas?"]),
        (service(role(zebra=2)), [f"roles[0].zebra: unknown key; allowed: {KEYS}"]),
        (
            service(role(startup_polcy="LeaderReady")),
            ["roles[0].startup_polcy: unknown key, did you mean startup_policy?"],
        ),
        (service(role(HTTPRoute={})), ["roles[0].HTTPRoute: unknown key, did you mean httproute?"]),
        (
            service(metadata={"lables": {}}),
            ["metadata.lables: unknown key, did you mean labels?"],
        ),
        (
            service(role(multinode=nodes(2, nodes=2))),
            ["roles[0].multinode.nodes: unknown key; allowed: launcher, nodeCount"],
        ),
        (
            service(schedulingStrategy={"scheduler": "volcano", "gangPolicy": {"minReplicas": {}}}),
            [
                (
                    "schedulingStrategy.gangPolicy.minReplicas: unknown key, did you mean "
                    "minRoleReplicas?"
                ),
                "schedulingStrategy.scheduler: unknown key, did you mean schedulerName?",
            ],
        ),
        (
            {**service(), "status": {}},
            ["status: unknown key; allowed: apiVersion, kind, metadata, spec"],
        ),
        ({**service(), 1: {}}, ["[1]: keys must be strings, got 1"]),
        (
            service(role(model={"uri": "hf://Qwen/Qwen3-32B"}, kvTransfer={"accelerator": "H100"})),
            [
                "roles[0].kvTransfer.accelerator: unknown key here; it is a field of roles[0]",
                "roles[0].model: unknown key here; it is a field of the service, beside roles",
            ],
        ),
    ],
)
def test_unknown_keys_are_refused_with_what_was_meant(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            service({**role(), "component_type": "worker"}),
            ["roles[0]: componentType and component_type are the same field; give it once"],
        ),
        (
            service(role(multinode={"nodeCount": 2, "node_count": 2})),
            ["roles[0].multinode: nodeCount and node_count are the same field; give it once"],
        ),
    ],
)
def test_a_field_has_one_definition(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


def test_all_wrong_fields_of_a_service_are_found_at_once() -> None:
    broken = service(
        role("Bad", "trainer", replicas=-1, template=template(container(args="x"))),
        role("dup", port=0),
        role("dup", template=None),
        metadata={"namespace": "Bad"},
    )
    assert problems(broken) == [
        'metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got "Bad"',
        f'roles[0].name: {NAME}, got "Bad"',
        'roles[0].componentType: must be one of router, prefiller, decoder, worker, got "trainer"',
        "roles[0].replicas: must be at least 0, got -1",
        "roles[1].port: must be at least 1, got 0",
        f'{SERVING}.args: must be a list of strings, got "x"',
        "roles[2].template: is required: the pods that serve the model",
    ]


def test_a_problem_is_one_line_whatever_the_names_hold() -> None:
    odd = service(role(container="sglang", template=pod_template("a\nb\x1b[31m")))
    assert problems(odd) == [
        "roles[0].container: no container of that name in template; allowed: a\\nb\\x1b[31m",
    ]
    assert problems(service(role(**{"a\nb": 1})))[0].startswith("roles[0].a\\nb: unknown key")


def test_an_unknown_key_that_is_like_a_required_one_is_reported_beside_it() -> None:
    odd = service(role())
    odd["spec"]["roles"][0]["Name"] = odd["spec"]["roles"][0].pop("name")
    assert problems(odd) == [
        "roles[0].name: is required",
        "roles[0].Name: unknown key, did you mean name?",
    ]


def test_a_guess_about_a_broken_field_is_never_reported() -> None:
    # Both names are unreadable; that the stand-ins of the two roles are alike says nothing.
    minima = {"gangPolicy": {"minRoleReplicas": {"decode": 1}}}
    broken = service(role(1), role(2), schedulingStrategy=minima)
    assert problems(broken) == [
        "roles[0].name: must be a string, got 1",
        "roles[1].name: must be a string, got 2",
    ]


def test_all_problems_of_all_documents_are_raised_in_one_error() -> None:
    with pytest.raises(InvalidServiceError) as caught:
        loads(
            "{apiVersion: fusioninfer.io/v1alpha1, kind: InferenceService, metadata: {name: a}, "
            "spec: {roles: 1}}\n---\n{apiVersion: v1, kind: Pod}\n"
        )
    assert str(caught.value).splitlines() == [
        "roles: must be a list, got 1",
        'apiVersion: must be fusioninfer.io/v1alpha1, got "v1"',
        'kind: must be InferenceService, got "Pod"',
    ]
    assert len(caught.value.findings) == 3


def test_a_mapping_is_refused_like_a_file() -> None:
    with pytest.raises(InvalidServiceError, match=r"^roles\[0\]\.replicas: must be at least 0"):
        load(service(role(replicas=-1)))


def test_a_constructor_tells_a_line_for_each_problem() -> None:
    with pytest.raises(InvalidServiceError) as refused:
        RoleArgs(name="serve", component_type=ComponentType.WORKER, replica=3, replicas="2")
    assert str(refused.value).splitlines() == [
        'RoleArgs: replicas: must be an integer, got "2"',
        "RoleArgs: replica: unknown key, did you mean replicas?",
    ]


def test_a_constructor_tells_where_in_the_whole_a_problem_is() -> None:
    role = RoleArgs(name="serve", component_type=ComponentType.WORKER, template={"spec": {}})
    with pytest.raises(InvalidServiceError, match=r"^InferenceServiceArgs: roles\[0\]\.template"):
        InferenceServiceArgs(roles=[role])
