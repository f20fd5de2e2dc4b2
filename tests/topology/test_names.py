"""How long names may be, and who may not share one."""

from __future__ import annotations

from typing import Any

from samples import nodes, role, service

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.loading import load

ROUTER = {"name": "router", "componentType": "router"}


def collisions(*manifests: dict[str, Any]) -> list[list[str]]:
    plans = plan_services([load(manifest)[0] for manifest in manifests])
    return [
        [str(finding) for finding in plan.findings if finding.severity == "error"] for plan in plans
    ]


def test_duplicate_service_name_is_rejected() -> None:
    assert collisions(service(), service(role("other"))) == [
        [],
        ['metadata.name: another service in this namespace has the name "svc"; rename one'],
    ]
    assert collisions(service(), service(metadata={"namespace": "other"})) == [[], []]


def test_lws_name_collision_across_services_is_rejected() -> None:
    expected = (
        'roles[0].name: Objects named "a-b-c" would also belong to role b-c of service a; '
        "rename one of them"
    )
    result = collisions(service(role("b-c"), name="a"), service(role("c"), name="a-b"))
    assert result == [[], [expected]]
    apart = service(role("c"), name="a-b", metadata={"namespace": "other"})
    assert collisions(service(role("b-c"), name="a"), apart) == [[], []]


def test_only_replicas_that_exist_collide() -> None:
    first = service(role("b", replicas=1), name="a")
    # Only replica 1 of role b could collide with names of service a-b, and it does not exist.
    assert collisions(first, service(role("c", replicas=0), name="a-b")) == [[], []]


def test_collision_with_worker_stateful_set_is_rejected() -> None:
    # LeaderWorkerSet names the workers of group 0 of svc-decode-1 "svc-decode-1-0".
    wide = role("decode", "decoder", replicas=2, multinode=nodes(2))
    expected = (
        'roles[1].name: StatefulSet "svc-decode-1-0" would also belong to role decode of service '
        "svc; rename one of them"
    )
    assert collisions(service(wide, role("decode-1"))) == [[expected]]
    narrow = role("decode", "decoder", replicas=2)
    assert collisions(service(narrow, role("decode-1"))) == [[]]


def test_collision_with_headless_service_of_a_group_is_rejected() -> None:
    unique = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
    expected = (
        'roles[1].name: Service "svc-decode-1-0" would also belong to role decode of service svc; '
        "rename one of them"
    )
    assert collisions(service(role("decode", replicas=2, **unique), role("decode-1"))) == [
        [expected]
    ]


def test_service_name_of_a_headless_service_is_rejected() -> None:
    result = collisions(service(role("b"), name="a"), service(role("c"), name="a-b-0"))
    assert result == [
        [],
        [
            (
                'metadata.name: Service "a-b-0" would also belong to role b of service a; rename '
                "one "
                "of them"
            )
        ],
    ]


def test_service_name_of_an_endpoint_picker_is_rejected() -> None:
    result = collisions(service(ROUTER, role("b"), name="a"), service(role("c"), name="a-epp"))
    assert result == [
        [],
        ['metadata.name: Service "a-epp" would also belong to service a; rename one of them'],
    ]


def test_colliding_owners_are_reported_once() -> None:
    result = collisions(
        service(role("b-c", replicas=50), name="a"), service(role("c", replicas=50), name="a-b")
    )
    assert [len(findings) for findings in result] == [0, 1]
