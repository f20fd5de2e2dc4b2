"""Properties of all passes that build a role's pods."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from full_pods import SERVICES
from random_services import generate_service
from samples import plan_of, rendered, role, service

from fusioninfer_pulumi.api.service_shape import derive_service_shape
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.build_pods import PASSES, build_contexts
from fusioninfer_pulumi.pods.pod import Context

SEEDS = range(30)
#: Lists of a pod's spec whose items have names.
NAMED = ("containers", "initContainers", "volumes")


def roles_of(manifest: Any) -> list[Context]:
    (args,) = load(manifest)
    meta = ServiceMeta(service="svc", namespace="default", labels={}, annotations={})
    return build_contexts(meta, args, derive_service_shape(args), None)


@cache
def valid_documents() -> list[tuple[Any, ServicePlan]]:
    """Return valid random documents and their plans."""
    result = []
    for seed in SEEDS:
        for document in generate_service(seed).documents:
            try:
                (args,) = load(copy.deepcopy(document))
            except InvalidServiceError:
                continue
            result.append((document, plan_service(args)))
    return result


def test_pass_does_not_change_its_input() -> None:
    for manifest in SERVICES.values():
        for ctx in roles_of(manifest):
            pods = ctx.initial_pods
            for item in PASSES:
                before = copy.deepcopy([pod.template for pod in pods.all])
                built, _ = item(pods, ctx)
                assert [pod.template for pod in pods.all] == before, item
                pods = built


def test_user_list_items_keep_their_index() -> None:
    for _, plan in valid_documents():
        for plan_role in plan.roles:
            for pod in plan_role.pods.user_pods:
                for key in NAMED:
                    fields = [item["name"] for item in pod.initial_template["spec"].get(key) or ()]
                    finished = [item["name"] for item in pod.spec.get(key) or ()]
                    assert finished[: len(fields)] == fields


def test_findings_about_pods_name_fields_of_the_document() -> None:
    checked = 0
    for document, plan in valid_documents():
        for finding in plan.findings:
            if finding.location[:1] != ("roles",) or "emplate" not in str(finding.location[2:3]):
                continue
            checked += 1
            value = document["spec"]
            for part in finding.location[:-1]:  # the field itself may be missing
                value = value[part]
            assert value is not None, finding
    assert checked > 25


def test_all_lws_of_a_role_share_finished_pods() -> None:
    manifest = service(role(replicas=3, multinode={"nodeCount": 2}))
    plan = plan_of(manifest)
    bodies = [
        item["spec"]["leaderWorkerTemplate"]
        for item in rendered(manifest)
        if item["kind"] == "LeaderWorkerSet"
    ]
    assert len(bodies) == 3
    for body in bodies:
        assert body["leaderTemplate"]["spec"] == plan.roles[0].leader_template["spec"]
        assert body["leaderTemplate"]["spec"] is bodies[0]["leaderTemplate"]["spec"]
