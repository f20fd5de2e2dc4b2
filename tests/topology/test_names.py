"""How long names may be, and who may not share one."""

from __future__ import annotations

from typing import Any

import pytest
from samples import nodes, problems, role, service

from fusioninfer_pulumi.checks.stages import plan_services
from fusioninfer_pulumi.loading import load

ROUTER = {"name": "router", "componentType": "router"}


def collisions(*manifests: dict[str, Any]) -> list[list[str]]:
    plans = plan_services([load(manifest)[0] for manifest in manifests])
    return [
        [str(finding) for finding in plan.findings if finding.severity == "error"] for plan in plans
    ]


def of_length(length: int, replicas: int, **fields: Any) -> dict[str, Any]:
    """A service whose longest LeaderWorkerSet name has so many characters."""
    name = "a" * (length - len(f"-role-{replicas - 1}"))
    return service(role("role", replicas=replicas, **fields), name=name)


@pytest.mark.parametrize(
    ("replicas", "fields", "limit"),
    [
        (1, {}, 52),
        (10, {}, 52),
        (11, {}, 52),
        (1, {"multinode": nodes(1)}, 52),
        (1, {"multinode": nodes(2)}, 50),
        (11, {"multinode": nodes(2)}, 50),
    ],
)
def test_name_limit_follows_from_stateful_sets(
    replicas: int, fields: dict[str, Any], limit: int
) -> None:
    assert problems(of_length(limit, replicas, **fields)) == []
    (problem,) = problems(of_length(limit + 1, replicas, **fields))
    service_name = "a" * (limit + 1 - len(f"-role-{replicas - 1}"))
    assert problem == (
        f"roles[0].name: the name of LeaderWorkerSet {service_name}-role-{replicas - 1} has "
        f"{limit + 1} characters, at most {limit} are allowed; shorten the name of the service or "
        "role by 1"
    )


def test_every_role_whose_name_is_too_long_is_named() -> None:
    manifest = service(role("a" * 30), role("b" * 30, multinode=nodes(2)), role("c"), name="s" * 19)
    assert [problem.partition(":")[0] for problem in problems(manifest)] == ["roles[1].name"]
    manifest["metadata"]["name"] = "s" * 25
    assert [problem.partition(":")[0] for problem in problems(manifest)] == [
        "roles[0].name",
        "roles[1].name",
    ]


def test_every_service_name_fits_where_labels_end() -> None:
    assert problems(service(role("a", replicas=0), name="s" * 63)) == []
    assert problems(service(name="s" * 64)) == [
        "metadata.name: must have at most 63 characters, got 64"
    ]


@pytest.mark.parametrize("name", ["epp", "epp-config", "pool", "httproute", "gateway"])
def test_roles_keep_off_the_names_of_the_routers_objects(name: str) -> None:
    assert problems(service(role(name))) == [
        (
            f'roles[0].name: "{name}" is taken by the router\'s objects; not allowed: epp, '
            "epp-config, gateway, httproute, pool"
        )
    ]


def test_two_services_may_not_have_one_name_in_a_namespace() -> None:
    assert collisions(service(), service(role("other"))) == [
        [],
        ['metadata.name: "svc" is also the name of another service in this namespace'],
    ]
    assert collisions(service(), service(metadata={"namespace": "other"})) == [[], []]


def test_names_that_join_to_the_same_set_are_found_across_services() -> None:
    expected = (
        'roles[0].name: LeaderWorkerSet "a-b-c-0" would also belong to role b-c of service a; '
        "rename one of them"
    )
    found = collisions(service(role("b-c"), name="a"), service(role("c"), name="a-b"))
    assert found == [[], [expected]]
    apart = service(role("c"), name="a-b", metadata={"namespace": "other"})
    assert collisions(service(role("b-c"), name="a"), apart) == [[], []]


def test_only_replicas_that_exist_collide() -> None:
    first = service(role("b", replicas=1), name="a")
    # Replica 1 of role b would be "a-b-1", which is the only set of role 1 of... no service here.
    assert collisions(first, service(role("c", replicas=0), name="a-b")) == [[], []]


def test_role_may_not_be_called_like_a_worker_stateful_set_of_another() -> None:
    # LeaderWorkerSet names the workers of group 0 of svc-decode-1 "svc-decode-1-0".
    wide = role("decode", "decoder", replicas=2, multinode=nodes(2))
    expected = (
        'roles[1].name: StatefulSet "svc-decode-1-0" would also belong to role decode of service '
        "svc; rename one of them"
    )
    assert collisions(service(wide, role("decode-1"))) == [[expected]]
    narrow = role("decode", "decoder", replicas=2)
    assert collisions(service(narrow, role("decode-1"))) == [[]]


def test_headless_service_of_a_group_may_not_meet_another_set() -> None:
    unique = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
    expected = (
        'roles[1].name: Service "svc-decode-1-0" would also belong to role decode of service svc; '
        "rename one of them"
    )
    assert collisions(service(role("decode", replicas=2, **unique), role("decode-1"))) == [
        [expected]
    ]


def test_service_may_not_be_called_like_a_headless_service() -> None:
    found = collisions(service(role("b"), name="a"), service(role("c"), name="a-b-0"))
    assert found == [
        [],
        [
            (
                'metadata.name: Service "a-b-0" would also belong to role b of service a; rename '
                "one "
                "of them"
            )
        ],
    ]


def test_service_may_not_be_called_like_another_ones_endpoint_picker() -> None:
    found = collisions(service(ROUTER, role("b"), name="a"), service(role("c"), name="a-epp"))
    assert found == [
        [],
        [
            'metadata.name: Service "a-epp" would also belong to service a; rename one of them',
        ],
    ]


def test_pair_of_owners_is_reported_once_however_many_replicas_meet() -> None:
    found = collisions(
        service(role("b-c", replicas=50), name="a"), service(role("c", replicas=50), name="a-b")
    )
    assert [len(each) for each in found] == [0, 1]
