"""Which pods form a gang, what its numbers are, and what can never be scheduled."""

from __future__ import annotations

from typing import Any

import pytest
from samples import (
    container,
    kinds,
    nodes,
    plan_of,
    pod_templates,
    prefill_decode,
    problems,
    rendered,
    role,
    said,
    service,
    template,
    warnings,
)

from fusioninfer_pulumi.findings import Severity

OFF = {"gangPolicy": {"mode": "Off"}}
NO_ROUTER = (
    "warning: roles: no router: nothing pairs prefill with decode, clients reach the decoders "
    "only; add a role of componentType router"
)
ROUTER = {"name": "router", "componentType": "router"}
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
SUBGROUPS = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
WAY_OUT = "remove it, or set schedulingStrategy.gangPolicy.mode to Off"


def strategy(**fields: Any) -> dict[str, Any]:
    return {"schedulingStrategy": fields}


def minima(**roles: int) -> dict[str, Any]:
    return strategy(gangPolicy={"minRoleReplicas": roles})


def story(**spec: Any) -> dict[str, Any]:
    """Story 4: prefill 1 replica x 2 nodes, decode 2 replicas x 4 nodes, 8 GPUs each."""
    eight = template(container(gpus=8))
    return prefill_decode(
        {"multinode": nodes(2), "template": eight},
        {"multinode": nodes(4), "template": eight},
        **spec,
    )


@pytest.mark.parametrize(
    ("manifest", "gang"),
    [
        (service(), False),
        (service(role(replicas=5)), False),
        (service(role(multinode=nodes(1))), False),
        (service(role(multinode=nodes(2))), True),
        (service(role("a", "prefiller"), role("b")), False),
        (service(role("a", "decoder")), False),
        (prefill_decode(), True),
        (prefill_decode({"replicas": 0}), True),
        (prefill_decode(**strategy(**OFF)), False),
        (service(role(multinode=nodes(2)), **strategy(**OFF)), False),
        (service(ROUTER, role()), False),
    ],
)
def test_a_gang_is_needed_where_pods_only_work_together(
    manifest: dict[str, Any], gang: bool
) -> None:
    plan = plan_of(manifest)
    assert plan.gang_scheduled is gang
    assert plan.scheduler_name == ("volcano" if gang else None)


def test_the_literal_form_lists_every_replica() -> None:
    gang = plan_of(story()).gang
    assert gang is not None
    assert (gang.pod_group, gang.min_member, gang.min_accelerators) == ("svc", 10, 80)
    assert gang.tasks == {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
    assert (gang.sub_groups, gang.min_resources, gang.queue, gang.priority_class) == (
        None,
        None,
        None,
        None,
    )


def test_the_partial_form_covers_its_minimum_and_no_more() -> None:
    group, *_ = rendered(story(**minima(prefill=1, decode=1)))
    selector = {"fusioninfer.io/service": "svc"}
    assert group["spec"] == {
        "minMember": 6,
        "subGroupPolicy": [
            {
                "name": "prefill",
                "labelSelector": {
                    "matchLabels": {**selector, "fusioninfer.io/role-name": "prefill"}
                },
                "matchLabelKeys": ["fusioninfer.io/replica-index"],
                "subGroupSize": 2,
                "minSubGroups": 1,
            },
            {
                "name": "decode",
                "labelSelector": {
                    "matchLabels": {**selector, "fusioninfer.io/role-name": "decode"}
                },
                "matchLabelKeys": ["fusioninfer.io/replica-index"],
                "subGroupSize": 4,
                "minSubGroups": 1,
            },
        ],
    }


@pytest.mark.parametrize(
    ("named", "expected", "members"),
    [
        ({}, {"prefill": 1, "decode": 2}, 10),
        ({"decode": 1}, {"prefill": 1, "decode": 1}, 6),
        ({"decode": 0}, {"prefill": 1, "decode": 0}, 2),
        ({"prefill": 0, "decode": 2}, {"prefill": 0, "decode": 2}, 8),
    ],
)
def test_a_role_without_a_minimum_needs_all_its_replicas(
    named: dict[str, int], expected: dict[str, int], members: int
) -> None:
    gang = plan_of(story(**minima(**named))).gang
    assert gang is not None
    assert gang.sub_groups is not None
    assert {group.role: group.minimum for group in gang.sub_groups} == expected
    assert gang.min_member == members
    assert gang.tasks is None


def test_a_replica_above_the_minimum_does_not_change_the_partial_pod_group() -> None:
    two, three = (
        rendered(prefill_decode({}, {"replicas": count}, **minima(prefill=1, decode=1)))[0]
        for count in (2, 3)
    )
    assert two == three
    assert rendered(prefill_decode())[0] != rendered(prefill_decode({}, {"replicas": 3}))[0]


def test_a_parked_role_has_no_share_and_no_objects() -> None:
    manifest = prefill_decode({"replicas": 0})
    assert kinds(manifest) == [
        "PodGroup/svc",
        "LeaderWorkerSet/svc-decode-0",
        "LeaderWorkerSet/svc-decode-1",
        "Service/svc",
    ]
    gang = plan_of(manifest).gang
    assert gang is not None
    assert gang.tasks == {"decode-0": 1, "decode-1": 1}
    assert said(manifest, Severity.INFO)[0] == (
        "info: roles[0].replicas: is 0: the role is parked, no pods of it are made"
    )
    partial = plan_of({**prefill_decode({"replicas": 0}, **minima(prefill=0, decode=1))}).gang
    assert partial is not None
    assert partial.sub_groups is not None
    assert [group.role for group in partial.sub_groups] == ["decode"]


def test_parking_a_role_does_not_restart_the_others() -> None:
    def decoders(manifest: dict[str, Any]) -> list[Any]:
        return [each for each in rendered(manifest) if "decode" in each["metadata"]["name"]]

    assert decoders(prefill_decode()) == decoders(prefill_decode({"replicas": 0}))


def test_a_service_that_is_parked_whole_has_no_pod_group() -> None:
    parked = prefill_decode({"replicas": 0}, {"replicas": 0})
    assert kinds(parked) == ["Service/svc"]
    assert problems(parked) == []
    assert problems({**parked, "spec": {**parked["spec"], **minima(prefill=0)}}) == []


def test_an_all_or_nothing_gang_is_a_choice_worth_knowing() -> None:
    assert said(story(), Severity.INFO) == [
        (
            "info: schedulingStrategy.gangPolicy: the gang is all-or-nothing: nothing starts "
            "before "
            "all 10 pods fit; minRoleReplicas lets a part of it start (Volcano 1.14.1 and later)"
        )
    ]
    assert said(service(role(multinode=nodes(2))), Severity.INFO) == []
    assert said(story(**minima(prefill=1, decode=0)), Severity.INFO) == [
        (
            "info: schedulingStrategy.gangPolicy.minRoleReplicas: the service starts without "
            "decode: "
            "a minimum of 0"
        ),
        (
            "info: roles[1].replicas: an update restarts the 2 replicas of decode above the "
            "gang's minimum together, after the others: nothing waits for them, as they may lack "
            "room"
        ),
    ]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            prefill_decode({"startupPolicy": "LeaderReady"}),
            (
                "roles[0].startupPolicy: LeaderReady deadlocks with gang scheduling: the workers "
                "are "
                "created after the leader is ready, and the leader is scheduled only with its "
                f"workers; {WAY_OUT}"
            ),
        ),
        (
            prefill_decode(metadata={"annotations": {EXCLUSIVE: "rack"}}),
            (
                f"metadata.annotations[{EXCLUSIVE}]: deadlocks with gang scheduling: the workers "
                "are created after the leader is scheduled, and the leader is scheduled only with "
                f"its workers; {WAY_OUT}"
            ),
        ),
        (
            prefill_decode(
                {}, {"template": template(metadata={"annotations": {EXCLUSIVE: "rack"}})}
            ),
            (
                f"roles[1].template.metadata.annotations[{EXCLUSIVE}]: binds the leaders alone: "
                "LeaderWorkerSet places workers by its own annotation, which deadlocks with gang "
                f"scheduling; {WAY_OUT}"
            ),
        ),
        (
            prefill_decode(
                {},
                {
                    "multinode": nodes(2, launcher="none"),
                    "subGroupPolicy": {"subGroupSize": 1},
                    "template": template(metadata={"annotations": {SUBGROUPS: "rack"}}),
                },
            ),
            (
                f"roles[1].subGroupPolicy: several subgroups with the annotation {SUBGROUPS} are "
                "never placed by Volcano, which takes all pods of a replica to fit the same "
                "nodes; remove the annotation, or set schedulingStrategy.gangPolicy.mode to Off"
            ),
        ),
        (
            prefill_decode(**strategy(schedulerName="default-scheduler")),
            (
                "schedulingStrategy.schedulerName: default-scheduler knows no gangs; use volcano "
                "(the "
                "default here), or set gangPolicy.mode to Off"
            ),
        ),
        (
            prefill_decode({"template": template(schedulerName="other")}),
            (
                'roles[0].template.spec.schedulerName: must be "volcano" like the service\'s, or '
                'absent; got "other"'
            ),
        ),
        *(
            (
                prefill_decode({"template": template(metadata={"annotations": {key: "x"}})}),
                (
                    f"roles[0].template.metadata.annotations[{key}]: is set by fusioninfer-pulumi; "
                    "remove it"
                ),
            )
            for key in ("scheduling.k8s.io/group-name", "volcano.sh/task-spec")
        ),
    ],
)
def test_what_can_never_be_scheduled_as_a_gang_is_refused(
    manifest: dict[str, Any], expected: str
) -> None:
    assert problems(manifest) == [expected]
    without = {**manifest["spec"].get("schedulingStrategy", {}), **OFF}
    loose = {**manifest, "spec": {**manifest["spec"], "schedulingStrategy": without}}
    assert problems(loose) == []


def test_subgroup_topology_needs_subgroups() -> None:
    key = SUBGROUPS
    alone = service(role(template=template(metadata={"annotations": {key: "rack"}})))
    assert problems(alone) == [f"roles[0].subGroupPolicy: is required by the annotation {key}"]
    alone["spec"]["roles"][0] |= {
        "multinode": nodes(2),
        "subGroupPolicy": {"subGroupSize": 2},
        "template": template(
            container(gpus=1, args=["--model", "m", "-tp", "2"]),
            metadata={"annotations": {key: "rack"}},
        ),
    }
    assert problems(alone) == []


@pytest.mark.parametrize("resources", [{}, {"requests": {}}, {"limits": {"cpu": "0"}}])
def test_a_gang_pod_that_asks_for_nothing_is_not_held_by_the_gang(resources: Any) -> None:
    bare = template(container(resources=resources))
    assert warnings(prefill_decode({}, {"template": bare})) == [
        (
            "warning: roles[1].template.spec.containers: no container asks for any resource: "
            "Volcano "
            "counts such pods as placed and does not hold them together with the gang"
        ),
        NO_ROUTER,
    ]
    assert warnings(service(role(template=bare))) == []


def test_a_pod_order_of_ones_own_is_unknown_to_the_capacity_table() -> None:
    ordered = template(metadata={"annotations": {"volcano.sh/task-priority": "5"}})
    assert warnings(prefill_decode({"template": ordered})) == [
        (
            "warning: roles[0].template.metadata.annotations[volcano.sh/task-priority]: reorders "
            "the "
            "gang: the capacity table does not know it"
        ),
        NO_ROUTER,
    ]


def test_the_priority_class_goes_on_the_pod_group_and_on_the_pods() -> None:
    manifest = prefill_decode(**strategy(priorityClassName="high"))
    assert rendered(manifest)[0]["spec"]["priorityClassName"] == "high"
    assert {each["spec"]["priorityClassName"] for each in pod_templates(manifest)} == {"high"}
    single = service(**strategy(priorityClassName="high"))
    assert pod_templates(single)[0]["spec"]["priorityClassName"] == "high"


def test_a_pod_template_may_not_contradict_the_service() -> None:
    own = service(
        role(template=template(priorityClassName="low", schedulerName="mine")),
        **strategy(priorityClassName="high", schedulerName="volcano"),
    )
    assert problems(own) == [
        (
            'roles[0].template.spec.schedulerName: must be "volcano" like the service\'s, or '
            "absent; "
            'got "mine"'
        ),
        (
            'roles[0].template.spec.priorityClassName: must be "high" like the service\'s, or '
            "absent; "
            'got "low"'
        ),
    ]
    same = service(
        role(template=template(priorityClassName="high", schedulerName="volcano")),
        **strategy(priorityClassName="high", schedulerName="volcano"),
    )
    assert problems(same) == []


def test_different_priorities_change_the_order_of_a_partial_gang() -> None:
    manifest = prefill_decode(
        {"template": template(priorityClassName="low")}, {}, **minima(prefill=1, decode=1)
    )
    assert warnings(manifest) == [
        (
            "warning: schedulingStrategy.priorityClassName: the roles' pods have different "
            "priority "
            "classes: Volcano starts further replicas by priority first, which the capacity table "
            "does not know"
        ),
        NO_ROUTER,
    ]


def test_a_queue_is_named_by_the_pod_group_or_by_the_pods() -> None:
    gang = prefill_decode(**strategy(queue="research"))
    assert rendered(gang)[0]["spec"]["queue"] == "research"
    key = "scheduling.volcano.sh/queue-name"
    assert all(key not in each["metadata"]["annotations"] for each in pod_templates(gang))
    loose = service(**strategy(queue="research", schedulerName="volcano"))
    assert pod_templates(loose)[0]["metadata"]["annotations"] == {key: "research"}
    assert kinds(loose) == ["LeaderWorkerSet/svc-inference-0", "Service/svc"]


def test_a_queue_of_a_pod_template_is_not_overwritten_in_silence() -> None:
    key = "scheduling.volcano.sh/queue-name"
    own = role(template=template(metadata={"annotations": {key: "mine"}}))
    assert problems(service(own, **strategy(queue="research", schedulerName="volcano"))) == [
        (
            f'roles[0].template.metadata.annotations[{key}]: must be "research" like '
            'schedulingStrategy.queue, or absent; got "mine"'
        )
    ]
    assert problems(service(own, **strategy(queue="mine", schedulerName="volcano"))) == []
    assert problems(service(own)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"gangPolicy": {"minRoleReplicas": {}, "minResources": True}},
            [
                "gangPolicy.minRoleReplicas: has no effect: the pods are no gang",
                "gangPolicy.minResources: has no effect: the pods are no gang",
            ],
        ),
        (
            {"queue": "research"},
            [
                (
                    "queue: has no effect: queues belong to Volcano, and these pods use another "
                    "scheduler"
                )
            ],
        ),
        ({"queue": "research", "schedulerName": "volcano"}, []),
        ({"schedulerName": "default-scheduler"}, []),
    ],
)
def test_what_has_no_effect_without_a_gang_is_a_warning(
    fields: dict[str, Any], expected: list[str]
) -> None:
    assert warnings(service(**strategy(**fields))) == [
        f"warning: schedulingStrategy.{each}" for each in expected
    ]


def test_another_scheduler_is_used_as_given() -> None:
    manifest = prefill_decode(**strategy(schedulerName="volcano-next"))
    assert problems(manifest) == []
    assert {each["spec"]["schedulerName"] for each in pod_templates(manifest)} == {"volcano-next"}


def test_without_a_gang_the_pods_are_as_the_user_wrote_them() -> None:
    manifest = prefill_decode(**strategy(**OFF))
    assert kinds(manifest) == [
        "LeaderWorkerSet/svc-prefill-0",
        "LeaderWorkerSet/svc-decode-0",
        "LeaderWorkerSet/svc-decode-1",
        "Service/svc",
    ]
    for each in pod_templates(manifest):
        assert "annotations" not in each["metadata"]
        assert "schedulerName" not in each["spec"]
