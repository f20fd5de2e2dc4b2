"""The cluster's facts against what services need: one table, all problems at once."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, template

from fusioninfer_pulumi import plan_service, render
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._check import check, needs
from fusioninfer_pulumi.component.prerequisites._read import (
    ClusterFacts,
    Definition,
    definition,
    release,
)
from fusioninfer_pulumi.component.prerequisites._table import release_text

GPU = template(container(gpus="1"))


def plan(
    *routers: dict[str, Any], nodes: int = 1, minimum: bool = False, name: str = "qwen"
) -> Any:
    role = {"name": "serve", "componentType": "worker", "replicas": 2, "template": GPU}
    spec: dict[str, Any] = {"roles": [{**role, "multinode": {"nodeCount": nodes}}, *routers]}
    if minimum:
        spec["schedulingStrategy"] = {"gangPolicy": {"minRoleReplicas": {"serve": 1}}}
    return plan_service(InferenceServiceArgs.model_validate(spec), name)


def router(image: str | None = None, **more: Any) -> dict[str, Any]:
    picker = {"endpointPicker": {"image": image}} if image else {}
    return {"name": "router", "componentType": "router", **picker, **more}


def schema(*paths: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    for path in paths:
        at = made
        for name in path.split("."):
            at = at.setdefault("properties", {}).setdefault(name, {"type": "object"})
    return made


FIELDS = {
    table.LEADER_WORKER_SET.definition: ["status.observedGeneration"],
    table.ALL_OR_NOTHING.definition: ["spec.minTaskMember", "spec.subGroupPolicy"],
    table.ROUTE.definition: ["spec.rules.timeouts", "spec.useDefaultGateways"],
}


def facts(**changed: Any) -> ClusterFacts:
    """A cluster with everything; `changed` has a definition by the first word of its name."""
    kinds: dict[str, Definition | None] = {}
    for row in {row.definition: row for row in table.ROWS}.values():
        own = Definition({row.served or "v1": schema(*FIELDS.get(row.definition, []))}, None)
        if row.product.startswith("Gateway"):
            own = Definition(own.schemas, (1, 4, 1))
        kinds[row.definition] = changed.pop(row.definition.partition(".")[0], own)
    given = {"releases": {"LeaderWorkerSet": (0, 9, 0), "Volcano": (1, 14, 1)}, "lws_provider": ""}
    return ClusterFacts(**{"definitions": kinds, **given, **changed})


def told(plans: list[Any], known: ClusterFacts) -> list[str]:
    return [str(finding) for finding in check(plans, known)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (plan(), ["leaderworkersets"]),
        (plan(nodes=2), ["leaderworkersets", "podgroups"]),
        (plan(router()), ["leaderworkersets", "inferencepools", "inferenceobjectives"]),
        (
            plan(router("registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0")),
            ["leaderworkersets", "inferencepools"],
        ),
        (
            plan(
                router(
                    gateway={"gatewayClassName": "g"},
                    httproute={"hostnames": ["a.example.com"]},
                )
            ),
            ["leaderworkersets", "gateways", "httproutes", "inferencepools", "inferenceobjectives"],
        ),
    ],
    ids=["pods", "gang", "router", "newer picker", "gateway"],
)
def test_what_is_needed_follows_from_the_plans(given: Any, wanted: list[str]) -> None:
    assert [row.definition.partition(".")[0] for row in needs([given])] == wanted


@pytest.mark.parametrize(
    ("gateway", "kinds", "wanted"),
    [
        (
            "istio",
            ["destinationrules"],
            "destinationrules.networking.istio.io is not installed; qwen needs v1.22.0 or later: "
            + table.DESTINATION_RULE.install,
        ),
        (
            "gke",
            ["healthcheckpolicies", "gcpbackendpolicies"],
            "healthcheckpolicies.networking.gke.io is not installed; qwen needs it: "
            + table.HEALTH_CHECK_POLICY.install,
        ),
        ("agentgateway", [], None),
    ],
)
def test_what_a_gateway_needs_beside_the_route_is_needed(
    gateway: str, kinds: list[str], wanted: str | None
) -> None:
    given = plan(router(gateway={"implementation": gateway}))
    assert told([given], facts()) == []
    found = told([given], facts(**dict.fromkeys(kinds)))
    assert len(found) == len(kinds)
    assert wanted is None or found[0].partition(": ")[2] == wanted
    # Every kind that is written and that Kubernetes itself does not have is looked for.
    groups = {row.definition.partition(".")[2] for row in needs([given])}
    written_groups = {each["apiVersion"].rpartition("/")[0] for each in render(given)}
    own = {"", "apps", "networking.k8s.io", "rbac.authorization.k8s.io"}
    assert written_groups - own <= groups


def test_of_one_kind_the_most_demanding_row_counts_for_all() -> None:
    needed = needs([plan(nodes=2, name="a"), plan(nodes=2, minimum=True, name="b")])
    assert table.ALL_OR_NOTHING not in needed
    assert needed[table.PARTIAL_GANG] == ["a", "b"]


@pytest.mark.parametrize("minimum", [False, True])
def test_a_cluster_with_everything_is_fine(minimum: bool) -> None:
    every = plan(router(gateway={"gatewayClassName": "g"}), nodes=2, minimum=minimum)
    assert told([every], facts()) == []


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"leaderworkersets": None}, "leaderworkersets.leaderworkerset.x-k8s.io is not installed"),
        (
            {"leaderworkersets": Definition({"v1": schema()})},
            "leaderworkersets.leaderworkerset.x-k8s.io has no field status.observedGeneration",
        ),
        (
            {"leaderworkersets": Definition({"v2": schema()})},
            "leaderworkersets.leaderworkerset.x-k8s.io serves v2, not v1",
        ),
        (
            {"releases": {"LeaderWorkerSet": (0, 8, 0), "Volcano": (1, 15, 0)}},
            "v0.8.0 is installed",
        ),
    ],
    ids=["missing", "old", "other version", "old program"],
)
def test_what_is_missing_is_named_with_what_installs_it(
    changed: dict[str, Any], wanted: str
) -> None:
    apply = f"kubectl apply --server-side -f {table.LEADER_WORKER_SET.install}"
    assert told([plan()], facts(**changed)) == [
        f"LeaderWorkerSet: {wanted}; qwen needs v0.9.0 or later: {apply}"
    ]


@pytest.mark.parametrize(
    ("minimum", "installed", "fine"),
    [
        (False, (1, 12, 2), False),
        (False, (1, 12, 3), True),
        (False, (1, 13, 0), False),
        (False, (1, 13, 1), True),
        (True, (1, 13, 3), False),
        (True, (1, 14, 0), False),
        (True, (1, 14, 1), True),
    ],
)
def test_volcano_is_judged_by_the_form_of_the_gang(
    minimum: bool, installed: tuple[int, int, int], fine: bool
) -> None:
    releases = {"LeaderWorkerSet": (0, 9, 0), "Volcano": installed}
    found = told([plan(nodes=2, minimum=minimum)], facts(releases=releases))
    assert bool(found) is not fine
    assert all(f"{release_text(installed)} is installed" in text for text in found)


def test_a_gang_with_a_minimum_needs_the_field() -> None:
    old = Definition({"v1beta1": schema("spec.minTaskMember")})
    (found,) = told([plan(nodes=2, minimum=True)], facts(podgroups=old))
    assert found.startswith(
        "Volcano: podgroups.scheduling.volcano.sh has no field spec.subGroupPolicy; "
        "qwen needs v1.14.1 or later: kubectl apply"
    )
    assert told([plan(nodes=2)], facts(podgroups=old)) == []


def test_a_release_that_the_definition_does_not_tell_is_a_warning() -> None:
    (found,) = told([plan(nodes=2)], facts(releases={}))
    assert found.startswith("warning: Volcano: its release was not found, so it was not checked")


def test_the_old_bundle_that_pickers_need_is_named() -> None:
    gone = facts(inferenceobjectives=None)
    (found,) = told([plan(router())], gone)
    assert "qwen needs v1.0.0 to v1.5.0: kubectl apply" in found
    newer = router("registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0")
    assert told([plan(newer)], gone) == []


def test_a_gang_needs_the_other_gang_provider_off() -> None:
    on = facts(lws_provider="volcano")
    (found,) = told([plan(nodes=2), plan(nodes=2, name="b"), plan(name="c")], on)
    assert "overwrite the PodGroup of every pod of qwen, b; remove gangSched" in found
    assert told([plan()], on) == []
    (unknown,) = told([plan(nodes=2)], facts(lws_provider=None))
    assert unknown.startswith("warning: LeaderWorkerSet: whether its own gang provider is off")


def stored(changed: dict[str, Any], release: Any = (0, 9, 0)) -> ClusterFacts:
    served = {"v1": schema("status.observedGeneration"), **changed}
    known = {version: each for version, each in served.items() if each is not None}
    return facts(leaderworkersets=Definition(known, release))


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("cluster-not-checked", facts(unread=("definition x: 403 Forbidden",))),
        ("crd-not-installed", facts(leaderworkersets=None)),
        ("crd-not-installed", stored({"v1": None})),
        ("crd-not-installed", stored({"v1": schema("status")})),
        ("release-not-supported", stored({}, (0, 8, 0))),
        ("release-unknown", facts(releases={"LeaderWorkerSet": (0, 9, 0)})),
        ("lws-gang-provider-on", facts(lws_provider="volcano")),
        ("release-unknown", facts(lws_provider=None)),
        ("statefulset-keeps-broken-pods", facts(kubernetes=(1, 35, 1))),
    ],
)
def test_findings_have_rules(rule: str, known: ClusterFacts) -> None:
    (found,) = check([plan(nodes=2)], known)
    assert (found.rule, found.location) == (rule, ())


def test_all_problems_come_at_once() -> None:
    gang = plan(router(gateway={"gatewayClassName": "g"}), nodes=2)
    nothing = dict.fromkeys((row.definition for row in table.ROWS), None)
    found = told([gang], ClusterFacts(nothing, lws_provider="volcano"))
    assert len(found) == 7
    assert all("qwen" in text for text in found)


def test_what_was_not_read_is_not_judged() -> None:
    found = told([plan()], ClusterFacts(unread=("definition x: 403 Forbidden",)))
    assert found == ["warning: not checked: definition x: 403 Forbidden"]


def test_a_definition_is_read_by_what_it_serves() -> None:
    stored = {
        "metadata": {"annotations": {"inference.networking.k8s.io/bundle-version": "v1.5.0-rc.1"}},
        "spec": {
            "versions": [
                {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema("a")}},
                {"name": "v1alpha1", "served": False},
            ]
        },
    }
    known = definition(stored)
    assert list(known.schemas) == ["v1"]
    assert known.release == (1, 5, 0)
    assert known.has("v1", "a")
    assert not known.has("v1", "a.b")
    assert not known.has("v2", "a")


def test_fields_are_found_inside_of_lists() -> None:
    inner = {"type": "array", "items": {"type": "array", "items": schema("b")}}
    assert Definition({"v1": {"properties": {"a": inner}}}).has("v1", "a.b")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("v1.2.3", (1, 2, 3)), ("0.9.0", (0, 9, 0)), ("latest", None), ("v1.2", None), ("", None)],
)
def test_tags_are_read(text: str, wanted: Any) -> None:
    assert release(text) == wanted


def test_the_table_says_for_each_row_what_installs_it() -> None:
    for row in table.ROWS:
        # A file to apply, or a command.
        assert row.install.startswith(("https://", "istioctl ", "gcloud "))
        assert row.least is None or release_text(row.last or row.least).startswith("v")
