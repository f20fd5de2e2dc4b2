"""Kthena's ModelServings become services, or are rejected field by field."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_importers.kthena.serving import choose_component_types
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.kthena_samples import ON, PAIR, Manifest, entry, policy, role, serving
from importers.tests.reads import check, read_source, reject, to_spec


def test_article_sample_with_lowercase_gangpolicy_is_converted() -> None:
    # The article omits the entry templates.
    sample = serving(
        role("prefill", replicas=4, workerReplicas=None),
        role("decode", replicas=4, workerReplicas=None),
        name="sample",
        metadata={"namespace": "default"},
        group={
            "restartGracePeriodSeconds": 60,
            "gangpolicy": {"minRoleReplicas": {"prefill": 2, "decode": 2}},
        },
        schedulerName="volcano",
        replicas=1,
    )
    result = to_spec(sample)
    assert result["schedulingStrategy"] == {
        "schedulerName": "volcano",
        "gangPolicy": {
            "minRoleReplicas": {"prefill": 2, "decode": 2},
            "mode": "On",
            "minResources": True,
        },
    }
    assert [
        (item["name"], item["componentType"], item["replicas"]) for item in result["roles"]
    ] == [("prefill", "prefiller", 4), ("decode", "decoder", 4)]
    assert (
        "f: warning: template.restartGracePeriodSeconds: LeaderWorkerSet recreates a failed "
        "replica at once, not after 60 seconds" in check(sample)
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (serving(), {"schedulerName": "volcano", "gangPolicy": ON}),
        (
            serving(schedulerName="default-scheduler"),
            {"schedulerName": "default-scheduler", "gangPolicy": {"mode": "Off"}},
        ),
        (
            serving(metadata={"annotations": {"scheduling.volcano.sh/queue-name": "q"}}),
            {"schedulerName": "volcano", "queue": "q", "gangPolicy": ON},
        ),
    ],
)
def test_scheduler_name_and_queue_are_copied(document: Manifest, expected: Manifest) -> None:
    assert to_spec(document)["schedulingStrategy"] == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({}, {"minMember": 4, "minTaskMember": {f"server-{item}": 1 for item in range(4)}}),
        ({"gangPolicy": {"minRoleReplicas": {"server": 2}}}, {"minMember": 2}),
        (
            {"networkTopology": {"groupPolicy": {"highestTierAllowed": 2}}},
            {"minMember": 4, "networkTopology": {"mode": "hard", "highestTierAllowed": 2}},
        ),
    ],
)
def test_single_pods_are_gang_scheduled(group: Manifest, expected: Manifest) -> None:
    (plan,) = read_source(serving(role(replicas=4), group=group, replicas=2)).plans
    result = [element for element in render(plan) if element["kind"] == "PodGroup"]
    assert [element["metadata"]["name"] for element in result] == ["ms-0", "ms-1"]
    for item in result:
        assert expected.items() <= item["spec"].items()


def test_group_without_required_replicas_is_not_gang_scheduled() -> None:
    document = serving(role(replicas=4), group={"gangPolicy": {"minRoleReplicas": {"server": 0}}})
    assert not read_source(document).plans[0].shape.needs_gang
    assert (
        "f: warning: template.gangPolicy.minRoleReplicas: has no effect: these pods are not "
        "gang-scheduled; gangPolicy.mode: On would gang-schedule them" in check(document)
    )


def test_network_topology_of_groups_and_roles_is_copied() -> None:
    topology = {
        "groupPolicy": {"mode": "soft", "highestTierAllowed": 2},
        "rolePolicy": {"highestTierAllowed": 1},
    }
    document = serving(role(workerReplicas=1, workerTemplate=entry()), group={
        "networkTopology": topology})  # fmt: skip
    gang_policy = to_spec(document)["schedulingStrategy"]["gangPolicy"]
    assert gang_policy == {"networkTopology": topology, "mode": "On", "minResources": True}
    named = serving(group={"networkTopology": {"rolePolicy": {"highestTierName": "rack"}}})
    assert (
        "f: template.networkTopology.rolePolicy.highestTierName: cannot be carried over: is not "
        "supported; use highestTierAllowed"
    ) in reject(named)
    empty = serving(group={"networkTopology": {}})
    expected = "has no effect: neither groupPolicy nor rolePolicy is set; set one"
    assert f"f: warning: template.networkTopology: {expected}" in check(empty)


def test_entry_and_worker_templates_become_leader_and_worker() -> None:
    worker = entry("ray")
    (result,) = to_spec(serving(role(workerReplicas=3, workerTemplate=worker)))["roles"]
    assert result == {
        "name": "server",
        "componentType": "worker",
        "multinode": {"nodeCount": 4, "launcher": "none"},
        "leaderTemplate": entry(),
        "workerTemplate": worker,
        "environment": "Kthena",
    }


def test_single_pods_get_kthena_variables_if_they_use_them() -> None:
    template = entry()
    template["spec"]["containers"][0]["args"] = ["--host", "$(ENTRY_ADDRESS)"]
    requests, other = to_spec(serving(role(entryTemplate=template), role("other")))["roles"]
    assert requests["environment"] == "Kthena"
    assert "environment" not in other


def _read_from(label: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['modelserving.volcano.sh/{label}']"}}


def _variables(*labels: str) -> Manifest:
    template = entry()
    template["spec"]["containers"][0]["env"] = [
        {"name": label.upper(), "valueFrom": _read_from(label)} for label in labels
    ]
    return template


def _index(name: str, label: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def test_variables_from_labels_have_values_of_kthena() -> None:
    template = _variables("name", "role", "group-name", "role-id")
    (result,) = to_spec(serving(role("405b", entryTemplate=template)))["roles"]
    assert result["template"]["spec"]["containers"][0]["env"] == [
        _index("FUSIONINFER_GROUP_INDEX", "fusioninfer.io/group-index"),
        _index("FUSIONINFER_REPLICA_INDEX", "fusioninfer.io/replica-index"),
        {"name": "NAME", "value": "ms"},
        {"name": "ROLE", "value": "405b"},
        {"name": "GROUP-NAME", "value": "ms-$(FUSIONINFER_GROUP_INDEX)"},
        {"name": "ROLE-ID", "value": "405b-$(FUSIONINFER_REPLICA_INDEX)"},
    ]
    scaled = serving(role(entryTemplate=_variables("role-id")))
    (result,) = to_spec(scaled, policy(), lossy=True)["roles"]
    assert result["template"]["spec"]["containers"][0]["env"][0] == _index(
        "FUSIONINFER_REPLICA_INDEX", "leaderworkerset.sigs.k8s.io/group-index"
    )


def test_kthena_variables_in_templates_are_dropped() -> None:
    template = _variables("role")
    env = template["spec"]["containers"][0]["env"]
    env.insert(0, {"name": "GROUP_SIZE", "value": "9"})
    env.append({"name": "A", "value": 1})
    document = serving(role(entryTemplate=template))
    at = "f: {}template.roles[0].entryTemplate.spec.containers[0].env"
    assert reject(document)[0].startswith(f"{at.format('')}[2].value:")
    env.pop()
    (result,) = to_spec(document)["roles"]
    assert result["environment"] == "Kthena"
    assert result["template"]["spec"]["containers"][0]["env"] == [
        {"name": "ROLE", "value": "server"}
    ]
    assert any(
        message.startswith(f"{at.format('info: ')}[0]: Kthena's") for message in check(document)
    )


def test_findings_about_variables_name_source_index() -> None:
    template = _variables("role-id")
    template["spec"]["containers"][0]["env"].append({"name": "A", "value": 1})
    (finding,) = reject(serving(role(entryTemplate=template)))
    assert finding.startswith("f: template.roles[0].entryTemplate.spec.containers[0].env[1].value:")


@pytest.mark.parametrize("replicas", [None, 1, 3])
def test_serving_groups_are_set_to_keep_kthena_names(replicas: Any) -> None:
    document = serving(replicas=replicas)
    assert to_spec(document)["groups"] == (replicas or 1)
    (plan,) = read_source(document).plans
    lws = [item["metadata"]["name"] for item in render(plan) if item["kind"] == "LeaderWorkerSet"]
    assert lws == [f"ms-{group}-server-0" for group in range(replicas or 1)]


def test_kthena_labels_in_selectors_become_ours() -> None:
    value = {
        "labelSelector": {
            "matchLabels": {"modelserving.volcano.sh/name": "ms"},
            "matchExpressions": [
                {"key": "modelserving.volcano.sh/role", "operator": "In", "values": ["a"]}
            ],
        },
        "matchLabelKeys": ["modelserving.volcano.sh/group-name", "app"],
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    template = entry(topologySpreadConstraints=[value])
    document = serving(role(entryTemplate=template))
    (topology_spread_constraint,) = to_spec(document)["roles"][0]["template"]["spec"][
        "topologySpreadConstraints"
    ]
    assert topology_spread_constraint == {
        **value,
        "labelSelector": {
            "matchLabels": {"fusioninfer.io/service": "ms"},
            "matchExpressions": [
                {"key": "fusioninfer.io/role-name", "operator": "In", "values": ["a"]}
            ],
        },
        "matchLabelKeys": ["fusioninfer.io/group-index", "app"],
    }
    assert (
        "f: info: "
        "template.roles[0].entryTemplate.spec.topologySpreadConstraints[0].matchLabelKeys[0]: "
        "modelserving.volcano.sh/group-name becomes fusioninfer.io/group-index"
    ) in check(document)


@pytest.mark.parametrize(
    ("selector", "at"),
    [
        (
            {"matchLabels": {"modelserving.volcano.sh/group-name": "ms-0"}},
            "matchLabels[modelserving.volcano.sh/group-name]",
        ),
        ({"matchLabelKeys": ["modelserving.volcano.sh/else"]}, "matchLabelKeys[0]"),
        ({"x": "metadata.labels['modelserving.volcano.sh/role-id']"}, "x"),
    ],
)
def test_selectors_by_kthena_label_values_are_unsupported(selector: Manifest, at: str) -> None:
    expected = (
        f"f: template.roles[0].entryTemplate.spec.affinity.{at}: cannot be carried over: pods "
        "have no label"
    )
    # The schema rejects such an affinity, too.
    findings = reject(serving(role(entryTemplate=entry(affinity=selector))))
    assert [finding for finding in findings if finding.startswith(expected)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["prefill", "decode"], ["prefiller", "decoder"]),
        (["Prefiller", "decoder", "x"], ["prefiller", "decoder", "worker"]),
        (["prefill", "server"], ["worker", "worker"]),
    ],
)
def test_component_type_follows_from_role_name(names: list[str], expected: list[str]) -> None:
    assert choose_component_types(names) == expected


@each_row(("partition", "expected"), [(2, 2), ("50%", 2), ("34%", 2), ("0%", 0), ("100%", 3)])
def test_role_rollout_is_copied(partition: Any, expected: int) -> None:
    document = serving(
        role(replicas=3, partition=partition, maxUnavailable="10%"),
        rolloutStrategy={"type": "RoleRollingUpdate"},
    )
    result = to_spec(document)
    assert result["rollout"] == {"level": "Role"}
    assert result["roles"][0]["rollout"] == {"maxUnavailable": "10%", "partition": expected}


GROUPS = "ServingGroupRollingUpdate"


@each_row(
    ("replicas", "strategy", "expected"),
    [
        (1, None, None),
        (1, {"type": GROUPS}, None),
        (1, {"type": GROUPS, "rollingUpdateConfiguration": {"partition": 1}}, {"partition": 1}),
        (4, None, {}),
        (4, {"type": GROUPS, "rollingUpdateConfiguration": {"partition": 0}}, {"partition": 0}),
        (
            4,
            {
                "type": GROUPS,
                "rollingUpdateConfiguration": {"partition": "30%", "maxUnavailable": "50%"},
            },
            {"partition": 2, "maxUnavailable": "50%"},
        ),
    ],
)
def test_group_rollout_is_copied(replicas: int, strategy: Any, expected: Any) -> None:
    fields = {} if strategy is None else {"rolloutStrategy": strategy}
    result = to_spec(serving(replicas=replicas, **fields))
    assert result.get("rollout") == (None if expected is None else {"level": "Group", **expected})


def test_recovery_policy_none_disables_restarts() -> None:
    result = to_spec(serving(*PAIR, recoveryPolicy="None"))
    assert [item["restartPolicy"] for item in result["roles"]] == ["None", "None"]


@pytest.mark.parametrize(
    ("rollout", "metadata"),
    [({}, {}), ({"rollingUpdateConfiguration": {}}, {}), (None, {"labels": {}, "annotations": {}})],
)
def test_empty_mappings_are_defaults(rollout: Any, metadata: Manifest) -> None:
    value = {} if rollout is None else {"rolloutStrategy": rollout}
    assert to_spec(serving(metadata=metadata, **value)) == to_spec(serving())


@each_row(
    ("document", "expected"),
    [
        (
            serving(*PAIR, recoveryPolicy="ServingGroupRecreate"),
            (
                "f: warning: recoveryPolicy: LeaderWorkerSet recreates only the pods of the "
                "failed replica, not the whole group"
            ),
        ),
        (
            serving(recoveryPolicy="ServingGroupRecreate"),
            (
                "f: info: recoveryPolicy: the group is one replica, which LeaderWorkerSet "
                "recreates as a whole"
            ),
        ),
        (
            serving(role(maxUnavailable=1)),
            (
                "f: info: template.roles[0].maxUnavailable: has no effect without "
                "rolloutStrategy.type RoleRollingUpdate; ignored"
            ),
        ),
        (
            serving(role(workerTemplate=entry())),
            (
                "f: info: template.roles[0].workerTemplate: has no effect without "
                "workerReplicas; ignored"
            ),
        ),
        (
            serving(group={"gangPolicy": {"minRoleReplicas": {}}}, schedulerName="x"),
            "f: info: template.gangPolicy: has no effect with schedulerName x; ignored",
        ),
    ],
)
def test_differences_are_reported(document: Manifest, expected: str) -> None:
    assert expected in check(document)


@each_row(
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
            "f: template.gangpolicy: conflicts with gangPolicy; remove one of them",
        ),
        (
            serving(
                rolloutStrategy={
                    "type": "RoleRollingUpdate",
                    "rollingUpdateConfiguration": {"partition": 1},
                }
            ),
            (
                "f: rolloutStrategy.rollingUpdateConfiguration: conflicts with "
                "RoleRollingUpdate; set it on the roles"
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
                "f: template.roles[0].name: must be a name of a-z, 0-9 and - that starts and ends "
                'with a letter or digit, got "P-Instance"'
            ),
        ),
        (
            serving(role("thirteen-long")),
            "f: template.roles[0].name: must have at most 12 characters, got 13",
        ),
    ],
)
def test_invalid_fields_are_rejected(document: Manifest, expected: str) -> None:
    assert reject(document) == [expected]
    assert reject(document, lossy=True) == [expected]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            serving(plugins=[{"name": "p", "type": "BuiltIn"}]),
            (
                "f: plugins[0]: cannot be carried over: plugin p runs in Kthena's controller; "
                "add its changes to the pod templates"
            ),
        )
    ],
)
def test_unsupported_fields_of_serving_are_errors_or_warnings(
    document: Manifest, expected: str
) -> None:
    assert reject(document) == [expected]
    assert reject(document, lossy=True) == []
    assert expected.replace("f: ", "f: warning: ") in check(document, lossy=True)
