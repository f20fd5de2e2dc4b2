"""The sidecar's ServiceAccount token and its permissions."""

from __future__ import annotations

from typing import Any

import pytest
from pd import decode_sidecar, leader, pair, transfer
from samples import problems, rendered

from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

OFF = transfer(sidecar={"ssrfProtection": False})
OLDER = ["llm-d-0.9"]


def test_pod_without_ssrf_protection_has_no_token() -> None:
    manifest = pair(decode_role=OFF)
    spec = leader(manifest)["spec"]
    (mount,) = decode_sidecar(manifest)["volumeMounts"]
    assert mount == {
        "name": "no-token",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": True,
    }
    assert {"name": "no-token", "emptyDir": {}} in spec["volumes"]
    assert "serviceAccountName" not in spec
    assert "automountServiceAccountToken" not in spec


def test_token_path_is_unchanged_if_no_token_is_mounted() -> None:
    manifest = pair(decode_role=OFF, pod={"automountServiceAccountToken": False})
    assert "volumeMounts" not in decode_sidecar(manifest)


def rbac_rules(manifest: Any) -> list[dict[str, Any]]:
    return [item for item in rendered(manifest) if item["metadata"]["name"] == "svc-sidecar"]


def test_ssrf_protection_creates_account_that_reads_pool_and_pods() -> None:
    manifest = pair()
    account, role, binding = rbac_rules(manifest)
    assert (account["kind"], role["kind"], binding["kind"]) == (
        "ServiceAccount",
        "Role",
        "RoleBinding",
    )
    assert [rule["verbs"] for rule in role["rules"]] == [["get", "list", "watch"]] * 2
    assert [rule["resources"] for rule in role["rules"]] == [["pods"], ["inferencepools"]]
    assert [subject["name"] for subject in binding["subjects"]] == ["svc-sidecar"]
    spec = leader(manifest)["spec"]
    assert spec["serviceAccountName"] == "svc-sidecar"
    # The engine container gets no token.
    assert spec["automountServiceAccountToken"] is False
    result = decode_sidecar(manifest)
    assert result["args"][-2:] == [
        "--enable-ssrf-protection=true",
        "--inference-pool=$(NAMESPACE)/svc-pool",
    ]
    assert [item["name"] for item in result["env"]] == ["POD_IP", "NAMESPACE"]
    assert result["volumeMounts"][0]["name"] == "sidecar-token"


def test_ssrf_protection_uses_service_account_of_template() -> None:
    manifest = pair(pod={"serviceAccountName": "mine"})
    role, binding = rbac_rules(manifest)
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == ["mine"]
    spec = leader(manifest)["spec"]
    assert spec["serviceAccountName"] == "mine"
    assert "automountServiceAccountToken" not in spec


def test_no_objects_without_ssrf_protection() -> None:
    assert rbac_rules(pair(decode_role=OFF)) == []


@pytest.mark.parametrize("family", OLDER)
def test_sidecar_release_without_pool_support_cannot_protect(family: str) -> None:
    router = {"endpointPicker": {"image": FAMILIES[family].image}}
    manifest = pair(router=router)
    assert rbac_rules(manifest) == []
    assert not [item for item in decode_sidecar(manifest)["args"] if "ssrf" in item]
    at = "roles[2].kvTransfer.sidecar.ssrfProtection"
    wanted = pair(router=router, decode_role=transfer(sidecar={"ssrfProtection": True}))
    (problem,) = problems(wanted)
    assert problem.startswith(f"{at}: the sidecar of {family}")
    assert "reject every prefill pod" in problem
