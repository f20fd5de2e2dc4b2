"""The sidecars' account exists before the pods that use it."""

from __future__ import annotations

from typing import Any

import pulumi
from pd import pair

from fusioninfer_pulumi import InferenceService


def test_pods_come_after_the_account_of_their_sidecars(engine: Any) -> None:
    more = {"kvTransfer": {"sidecar": {"ssrfProtection": True}}}
    manifest = pair(decode_role=more)
    deployment = engine.run(lambda: InferenceService("svc", manifest))
    rights = {
        each.request.type.rpartition(":")[2]: each.urn
        for each in deployment.children
        if each.request.name == "svc-sidecar"
    }
    assert set(rights) == {"ServiceAccount", "Role", "RoleBinding"}
    needed = {rights["ServiceAccount"], rights["RoleBinding"]}
    assert needed <= set(deployment["svc-decode-0"].request.dependencies)


def test_images_may_be_outputs(engine: Any) -> None:
    def program() -> None:
        image = pulumi.Output.from_input("registry.example.com/sidecar:1")
        more = {"kvTransfer": {"sidecar": {"image": image}}}
        InferenceService("svc", pair(decode_role=more))

    inputs = engine.run(program)["svc-decode-0"].inputs
    body = inputs["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert body["initContainers"][0]["image"] == "registry.example.com/sidecar:1"
