"""What of a Kthena ModelServing is refused, lost, or differs."""

from __future__ import annotations

import pytest
from importers.kthena_samples import PAIR, Manifest, entry, role, serving
from importers.reads import problems, said


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            serving(*PAIR, recoveryPolicy="ServingGroupRecreate"),
            (
                "f: warning: recoveryPolicy: LeaderWorkerSet makes the pods of the failed "
                "replica anew, "
                "not those of the other replicas and roles of its group"
            ),
        ),
        (
            serving(recoveryPolicy="ServingGroupRecreate"),
            (
                "f: info: recoveryPolicy: the group is one replica, which LeaderWorkerSet makes "
                "anew as "
                "a whole"
            ),
        ),
        (
            serving(role(maxUnavailable=1)),
            (
                "f: info: template.roles[0].maxUnavailable: has no effect without "
                "rolloutStrategy.type RoleRollingUpdate; left out"
            ),
        ),
        (
            serving(role(workerTemplate=entry())),
            (
                "f: info: template.roles[0].workerTemplate: has no effect without workerReplicas; "
                "left out"
            ),
        ),
        (
            serving(group={"gangPolicy": {"minRoleReplicas": {}}}, schedulerName="x"),
            "f: info: template.gangPolicy: has no effect with schedulerName x; left out",
        ),
    ],
)
def test_what_differs_is_said(document: Manifest, expected: str) -> None:
    assert expected in said(document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            serving(role(workerReplicas=1)),
            "f: template.roles[0].workerTemplate: is required with workerReplicas above 0",
        ),
        (
            serving(
                *PAIR,
                group={
                    "gangPolicy": {"minRoleReplicas": {"prefill": 1}},
                    "gangpolicy": {"minRoleReplicas": {"prefill": 1}},
                },
            ),
            "f: template.gangpolicy: is gangPolicy, which is given too; give it once",
        ),
        (
            serving(
                rolloutStrategy={
                    "type": "RoleRollingUpdate",
                    "rollingUpdateConfiguration": {"partition": 1},
                }
            ),
            (
                "f: rolloutStrategy.rollingUpdateConfiguration: must not be set with "
                "RoleRollingUpdate: set it on the roles"
            ),
        ),
        (
            serving(*PAIR, group={"gangPolicy": {"minRoleReplicas": {"prefill": 2}}}),
            (
                "f: template.gangPolicy.minRoleReplicas.prefill: must be at most the role's "
                "replicas "
                "(1), got 2"
            ),
        ),
        (
            serving(role("P-Instance")),
            (
                "f: template.roles[0].name: must be a name of a-z, 0-9 and - that starts with a "
                "letter "
                'and ends with a letter or digit, got "P-Instance"'
            ),
        ),
        (
            serving(role("thirteen-long")),
            "f: template.roles[0].name: must have at most 12 characters, got 13",
        ),
    ],
)
def test_what_kthena_or_we_refuse(document: Manifest, expected: str) -> None:
    assert problems(document) == [expected]
    assert problems(document, lossy=True) == [expected]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            serving(plugins=[{"name": "p", "type": "BuiltIn"}]),
            (
                "f: plugins[0]: cannot be carried over: plugin p changes pods inside of Kthena's "
                "controller; write what it adds into the pod templates"
            ),
        ),
    ],
)
def test_what_is_lost_is_refused_or_said(document: Manifest, expected: str) -> None:
    assert problems(document) == [expected]
    assert problems(document, lossy=True) == []
    assert expected.replace("f: ", "f: warning: ") in said(document, lossy=True)
