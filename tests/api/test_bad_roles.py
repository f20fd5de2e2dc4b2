"""What is refused of a role's own fields and of the gang that roles form."""

from __future__ import annotations

from typing import Any

import pytest
from samples import nodes, prefill_decode, problems, role, service, template

from fusioninfer_pulumi.api import RoleArgs

NAME = "must be a name of a-z, 0-9 and - that starts and ends with a letter or digit"
KEYS = ", ".join(sorted(field.alias or name for name, field in RoleArgs.model_fields.items()))
ROUTER = {"name": "router", "componentType": "router"}


def gang(**policy: Any) -> dict[str, Any]:
    return prefill_decode(schedulingStrategy={"gangPolicy": policy})


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({**service(), "spec": {}}, ["roles: is required"]),
        ({**service(), "spec": {"roles": []}}, ["roles: must hold at least 1 item, got none"]),
        ({**service(), "spec": {"roles": None}}, ["roles: must be a list, got null"]),
        ({**service(), "spec": {"roles": {"a": 1}}}, ['roles: must be a list, got {"a": 1}']),
        (service("x"), ['roles[0]: must be a mapping, got "x"']),
        (
            service(role(), role()),
            ['roles[1].name: "inference" is also the name of roles[0]'],
        ),
        (service(role(None)), ["roles[0].name: is required"]),
        (service(role("Decode")), [f'roles[0].name: {NAME}, got "Decode"']),
        (service(role("st-")), [f'roles[0].name: {NAME}, got "st-"']),
        (service(role("a-")), [f'roles[0].name: {NAME}, got "a-"']),
        (service(role("a_b")), [f'roles[0].name: {NAME}, got "a_b"']),
        (service(role("decode\n")), [f'roles[0].name: {NAME}, got "decode\\n"']),
        (service(role("")), ["roles[0].name: must not be empty"]),
        (service(role(5)), ["roles[0].name: must be a string, got 5"]),
        (service(role("a" * 64)), ["roles[0].name: must have at most 63 characters, got 64"]),
        (service(role(component_type=None)), ["roles[0].componentType: is required"]),
        (
            service(role(component_type="trainer")),
            [
                (
                    "roles[0].componentType: must be one of router, prefiller, decoder, worker, "
                    'got "trainer"'
                )
            ],
        ),
        (
            service({**ROUTER, "strategy": "prefix-cache"}),
            ["roles: no role serves a model; add a role of worker, prefiller or decoder"],
        ),
        (
            service(ROUTER, {**ROUTER, "name": "b"}, role()),
            ["roles[1].componentType: a service has one router, roles[0] is one already"],
        ),
        (
            service({**ROUTER, "template": template(), "replicas": 2}, role()),
            [
                "roles[0].replicas: a router runs no model; remove it (this role is a router)",
                "roles[0].template: a router runs no model; remove it (this role is a router)",
            ],
        ),
        (
            service({**ROUTER, "strategy": "random"}, role()),
            [
                (
                    "roles[0].strategy: must be one of prefix-cache, kv-cache-utilization, "
                    'queue-size, lora-affinity, pd-disaggregation, got "random"'
                )
            ],
        ),
        (
            service(role(strategy="prefix-cache", httproute={})),
            [
                (
                    "roles[0].strategy: belongs to a role of componentType router (this role is a "
                    "worker)"
                ),
                (
                    "roles[0].httproute: belongs to a role of componentType router (this role is a "
                    "worker)"
                ),
            ],
        ),
    ],
)
def test_roles_are_named_typed_and_serve(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "must be at least {least}, got -1"),
        (True, "must be an integer, got true"),
        ("2", 'must be an integer, got "2"'),
        (1.5, "must be an integer, got 1.5"),
        (2.0, "must be an integer, got 2.0"),
        ([1], "must be an integer, got [1]"),
        (10_001, "must be at most 10000, got 10001"),
        (10**9, "must be at most 10000, got 1000000000"),
        (10**30, "must be at most 10000, got 1000000000000000000000000000000"),
    ],
)
def test_counts_are_whole_numbers(value: Any, message: str) -> None:
    assert problems(service(role(replicas=value))) == [
        f"roles[0].replicas: {message.format(least=0)}"
    ]
    assert problems(service(role(multinode=nodes(value)))) == [
        f"roles[0].multinode.nodeCount: {message.format(least=1)}"
    ]
    minima = {"gangPolicy": {"minRoleReplicas": {"decode": value}}}
    assert problems(prefill_decode(schedulingStrategy=minima)) == [
        f"schedulingStrategy.gangPolicy.minRoleReplicas.decode: {message.format(least=0)}"
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"multinode": nodes(0)}, ["roles[0].multinode.nodeCount: must be at least 1, got 0"]),
        ({"multinode": {}}, ["roles[0].multinode.nodeCount: is required"]),
        (
            {
                "multinode": {"launcher": "ray"},
                "template": None,
                "leaderTemplate": template(),
                "workerTemplate": template(),
            },
            ["roles[0].multinode.nodeCount: is required"],
        ),
        (
            {"multinode": {"launcher": "ray"}, "parallelism": {"tensor": 8}},
            [
                (
                    "roles[0].multinode.nodeCount: is required: parallelism does not say how many "
                    "pods a replica has (pipeline would, or data with dataLocal)"
                )
            ],
        ),
        (
            {"multinode": nodes(2, launcher="mpi")},
            [
                (
                    "roles[0].multinode.launcher: must be one of ray, multiprocessing, "
                    'data-parallel, none, got "mpi"'
                )
            ],
        ),
        ({"port": 0}, ["roles[0].port: must be at least 1, got 0"]),
        ({"port": 65536}, ["roles[0].port: must be at most 65535, got 65536"]),
        ({"port": "http"}, ['roles[0].port: must be an integer, got "http"']),
        (
            {"container": "sglang"},
            ["roles[0].container: no container of that name in template; allowed: vllm"],
        ),
        (
            {"restartPolicy": "Always"},
            [
                (
                    "roles[0].restartPolicy: must be one of RecreateGroupOnPodRestart, "
                    'RecreateGroupAfterStart, None, got "Always"'
                )
            ],
        ),
        (
            {"startupPolicy": "Ready"},
            ['roles[0].startupPolicy: must be one of LeaderCreated, LeaderReady, got "Ready"'],
        ),
        (
            {"networkConfig": {"subdomainPolicy": "None"}},
            [
                (
                    "roles[0].networkConfig.subdomainPolicy: must be one of Shared, "
                    'UniquePerReplica, got "None"'
                )
            ],
        ),
        ({"networkConfig": {}}, ["roles[0].networkConfig.subdomainPolicy: is required"]),
        (
            {
                "multinode": nodes(5),
                "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
            },
            [],
        ),
        ({"multinode": nodes(5), "subGroupPolicy": {"subGroupSize": 2}}, []),
        ({"template": None}, ["roles[0].template: is required: the pods that serve the model"]),
        (
            {"leaderTemplate": template()},
            ["roles[0].leaderTemplate: stands in place of template; give one or the other"],
        ),
        (
            {"template": None, "multinode": nodes(2), "leaderTemplate": template()},
            ["roles[0].workerTemplate: is required beside leaderTemplate"],
        ),
        (
            {"template": None, "leaderTemplate": template(), "workerTemplate": template()},
            [
                "roles[0].leaderTemplate: needs multinode.nodeCount of at least 2; use template",
                "roles[0].workerTemplate: needs multinode.nodeCount of at least 2; use template",
            ],
        ),
    ],
)
def test_fields_of_a_role_hold_what_their_controllers_take(
    fields: dict[str, Any], expected: list[str]
) -> None:
    assert problems(service(role(**fields))) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            gang(minRoleReplicas={"decode": 3}),
            ["minRoleReplicas.decode: must be at most the role's replicas (2), got 3"],
        ),
        (
            gang(minRoleReplicas={"decoder": 1}),
            ["minRoleReplicas.decoder: no role of that name; allowed: decode, prefill"],
        ),
        (
            service(
                ROUTER,
                role(multinode=nodes(2)),
                schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"router": 1}}},
            ),
            ["minRoleReplicas.router: a router has no share in a gang; remove it"],
        ),
        (
            gang(minRoleReplicas={"prefill": 0, "decode": 0}),
            ["minRoleReplicas: must be above 0 for at least one role, got 0 for all"],
        ),
        (gang(minRoleReplicas=[1]), ["minRoleReplicas: must be a mapping, got [1]"]),
        (gang(mode="Always"), ['mode: must be one of Auto, On, Off, got "Always"']),
        (gang(minResources="yes"), ['minResources: must be true or false, got "yes"']),
    ],
)
def test_a_gang_policy_fits_its_roles(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == [f"schedulingStrategy.gangPolicy.{each}" for each in expected]


def test_names_of_other_objects_are_not_empty() -> None:
    strategy = {"schedulerName": "", "queue": "", "priorityClassName": ""}
    name = "a name of at most 253 of a-z, 0-9, - and . that starts and ends with a letter or digit"
    kinds = {"schedulerName": "the name of a scheduler", "queue": name, "priorityClassName": name}
    assert problems(service(schedulingStrategy=strategy)) == [
        f'schedulingStrategy.{field}: must be {kind}, got ""' for field, kind in kinds.items()
    ]
