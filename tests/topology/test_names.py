"""How long names may be, and who may not share one."""

from __future__ import annotations

from typing import Any

from samples import nodes, role, service

from fusioninfer_pulumi.checks.stages import plan_services
from fusioninfer_pulumi.loading import load

ROUTER = {"name": "router", "componentType": "router"}


def collisions(*manifests: dict[str, Any]) -> list[list[str]]:
    plans = plan_services([load(manifest)[0] for manifest in manifests])
    return [
        [str(finding) for finding in plan.findings if finding.severity == "error"] for plan in plans
    ]


def test_two_services_may_not_have_one_name_in_a_namespace() -> None:
    assert collisions(service(), service(role("other"))) == [
        [],
        ['metadata.name: "svc" is also the name of another service in this namespace'],
    ]
    assert collisions(service(), service(metadata={"namespace": "other"})) == [[], []]


def test_names_that_join_to_the_same_set_are_found_across_services() -> None:
    expected = (
        'roles[0].name: Objects named "a-b-c" would also belong to role b-c of service a; '
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
