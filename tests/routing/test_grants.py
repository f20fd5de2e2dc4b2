"""ReferenceGrants for other namespaces, and names of endpoint pickers."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import HTTPS, managed
from routed import ROUTE, objects, only, routed
from samples import Manifest, list_findings, problems, role, warnings

REMOTE = {"name": "other", "namespace": "elsewhere", "port": 80}
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": REMOTE}}
SECRET = {"name": "tls", "namespace": "certificates"}
GRANTED: dict[str, tuple[Manifest, str, list[dict[str, Any]], str]] = {
    "a backend": (
        routed(httproute={**ROUTE, "rules": [{"backendRefs": [REMOTE]}, {"filters": [MIRROR]}]}),
        "HTTPRoute",
        [{"group": "", "kind": "Service", "name": "other"}],
        "elsewhere",
    ),
    "a pool": (
        routed(httproute={**ROUTE, "rules": [{"backendRefs": [
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p",
             "namespace": "elsewhere"}, REMOTE]}]}),
        "HTTPRoute",
        [
            {"group": "", "kind": "Service", "name": "other"},
            {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"},
        ],
        "elsewhere",
    ),
    "a certificate": (
        managed({**HTTPS, "tls": {"certificateRefs": [SECRET, {"name": "own"}]}}),
        "Gateway",
        [{"group": "", "kind": "Secret", "name": "tls"}],
        "certificates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GRANTED)
def test_missing_grant_is_a_warning_unless_created(case: str) -> None:
    manifest, kind, targets, namespace = GRANTED[case]
    requests = [line for line in warnings(manifest) if "ReferenceGrant" in line]
    assert requests
    assert all(line.endswith("referenceGrants: true creates it") for line in requests)
    assert not objects(manifest, "ReferenceGrant")
    manifest["spec"]["roles"][0]["referenceGrants"] = True
    assert not [line for line in list_findings(manifest) if "ReferenceGrant" in line]
    grant = only(manifest, "ReferenceGrant")
    owner = "svc-httproute" if kind == "HTTPRoute" else "svc-gateway"
    assert (grant["metadata"]["namespace"], grant["metadata"]["name"]) == (
        namespace,
        f"default.{owner}",
    )
    group = "gateway.networking.k8s.io"
    assert grant["spec"] == {
        "from": [{"group": group, "kind": kind, "namespace": "default"}],
        "to": targets,
    }


def test_grant_needs_a_plain_namespace(output: Any) -> None:
    manifest = routed(
        httproute={**ROUTE, "rules": [{"backendRefs": [REMOTE]}]},
        metadata={"namespace": output("a")},
        referenceGrants=True,
    )
    (finding,) = problems(manifest)
    assert finding.startswith("metadata.namespace: must be a string, got a pulumi Output")
    assert "names or queries of referenceGrants contain it" in finding


def test_picker_name_too_long_for_a_label_is_rejected() -> None:
    def check_name(length: int, **fields: Any) -> list[str]:
        manifest = routed(role(replicas=0), **fields)
        manifest["metadata"]["name"] = "s" * length
        return problems(manifest)

    assert not check_name(59)
    (line,) = check_name(60)
    assert line.startswith("metadata.name: the name of endpoint picker ")
    assert line.endswith(
        "has 64 characters, at most 63 are allowed; shorten the name of the service or role by 1"
    )
    assert not check_name(55, gateway={}, httproute=None)
    assert "the name of Gateway" in check_name(56, gateway={}, httproute=None)[0]
