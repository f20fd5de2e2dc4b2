"""Where the sidecar finds a ServiceAccount token, and what that token may do."""

from __future__ import annotations

from typing import Any

from pd import its_sidecar, leader, pair, transfer
from samples import rendered


def test_without_rights_it_finds_no_token() -> None:
    spec = leader(pair())["spec"]
    (mount,) = its_sidecar(pair())["volumeMounts"]
    assert mount == {
        "name": "no-token",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": True,
    }
    assert {"name": "no-token", "emptyDir": {}} in spec["volumes"]
    assert "serviceAccountName" not in spec
    assert "automountServiceAccountToken" not in spec


def test_no_token_is_covered_where_none_is_mounted() -> None:
    manifest = pair(pod={"automountServiceAccountToken": False})
    assert "volumeMounts" not in its_sidecar(manifest)


def rights(manifest: Any) -> list[dict[str, Any]]:
    return [each for each in rendered(manifest) if each["metadata"]["name"] == "svc-sidecar"]


def test_protection_brings_an_account_that_reads_pool_and_pods() -> None:
    manifest = pair(decode_role=transfer(sidecar={"ssrfProtection": True}))
    account, role, binding = rights(manifest)
    assert (account["kind"], role["kind"], binding["kind"]) == (
        "ServiceAccount",
        "Role",
        "RoleBinding",
    )
    assert [rule["verbs"] for rule in role["rules"]] == [["get", "list", "watch"]] * 2
    assert [rule["resources"] for rule in role["rules"]] == [["pods"], ["inferencepools"]]
    assert [each["name"] for each in binding["subjects"]] == ["svc-sidecar"]
    spec = leader(manifest)["spec"]
    assert spec["serviceAccountName"] == "svc-sidecar"
    # The engine beside it gets no token.
    assert spec["automountServiceAccountToken"] is False
    found = its_sidecar(manifest)
    assert found["args"][-2:] == [
        "--enable-ssrf-protection=true",
        "--inference-pool=$(NAMESPACE)/svc-pool",
    ]
    assert [each["name"] for each in found["env"]] == ["POD_IP", "NAMESPACE"]
    assert found["volumeMounts"][0]["name"] == "sidecar-token"


def test_protection_uses_the_account_of_the_template() -> None:
    manifest = pair(
        decode_role=transfer(sidecar={"ssrfProtection": True}), pod={"serviceAccountName": "mine"}
    )
    role, binding = rights(manifest)
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert [each["name"] for each in binding["subjects"]] == ["mine"]
    spec = leader(manifest)["spec"]
    assert spec["serviceAccountName"] == "mine"
    assert "automountServiceAccountToken" not in spec


def test_without_protection_nothing_is_created() -> None:
    assert rights(pair()) == []
