"""A refused document: all wrong fields are reported at once, and it is not planned."""

from __future__ import annotations

from typing import Any

import pytest
from samples import Manifest, container, nodes, prefill_decode, problems, role, service, template

from fusioninfer_pulumi.loading.validate import plan_document, validate_document

INTEGER = 'replicas: must be an integer, got "2"'
EXCLUSIVE = "roles[{}].strategy: belongs to a role of componentType router (this role is a worker)"
PATH = {"uri": "pvc://claim/model", "cache": {"claimName": "c"}}
#: Only the plan of such a pod shows that it has too few accelerators.
SPLIT = template(container(gpus=1, args=["--model", "m", "--tensor-parallel-size", "4"]))


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (service(role(replicas="2", template=SPLIT)), [f"roles[0].{INTEGER}"]),
        (
            service(role(replicas="2"), role(1), rolls=[]),
            [
                f"roles[0].{INTEGER}",
                "roles[1].name: must be a string, got 1",
                "rolls: unknown key, did you mean roles?",
            ],
        ),
        # Rules between the fields of a role that is right by itself.
        (
            service(role(replicas="2"), role("b", strategy="queue-size")),
            [f"roles[0].{INTEGER}", EXCLUSIVE.format(1)],
        ),
        (
            service(role(strategy="queue-size"), layout="PerRol"),
            ['layout: must be one of PerReplica, PerRole, got "PerRol"', EXCLUSIVE.format(0)],
        ),
        (
            {**service(role(strategy="queue-size")), "metadata": 5},
            ["metadata: must be a mapping, got 5", EXCLUSIVE.format(0)],
        ),
        # Pod templates, in any role.
        (
            service(role(1, template=template(container(args="x")))),
            [
                "roles[0].name: must be a string, got 1",
                'roles[0].template.spec.containers[0].args: must be a list of strings, got "x"',
            ],
        ),
        (
            prefill_decode(prefill={"replicas": "2"}, decode={"template": {"spec": {}}}),
            [f"roles[0].{INTEGER}", "roles[1].template.spec.containers: is required: a list"],
        ),
        # The role is wrong itself: what stands between its fields may follow from that.
        (service(role(replicas="2", strategy="queue-size")), [f"roles[0].{INTEGER}"]),
        (
            service(role(multinode=nodes("4"), subGroupPolicy={"subGroupSize": 8})),
            ['roles[0].multinode.nodeCount: must be an integer, got "4"'],
        ),
        (
            service(role(replicas="2"), model=PATH),
            [
                f"roles[0].{INTEGER}",
                "model.cache: has nothing to keep: pvc:// is mounted as it is; remove it",
            ],
        ),
    ],
)
def test_all_wrong_fields_are_told_at_once(manifest: Manifest, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize("raw", [[], None, {"spec": 5}, {"spec": {"roles": 5, "model": 5}}])
def test_what_is_no_service_at_all_is_refused(raw: Any) -> None:
    manifest = {**service(role()), **raw} if isinstance(raw, dict) else raw
    plan, findings = plan_document(validate_document(manifest))
    assert plan is None
    assert findings


def test_a_service_that_breaks_rules_between_its_fields_is_not_planned() -> None:
    plan, findings = plan_document(
        validate_document(service(role(template=SPLIT, strategy="queue-size")))
    )
    assert plan is None
    assert [str(finding) for finding in findings] == [EXCLUSIVE.format(0)]
