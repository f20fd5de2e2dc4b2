"""Schemas and rules, compared with the components' definitions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from e2e.harness import ApiError, Cluster
from e2e.inputs import ROOT
from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.schemas.schema_check import object_findings
from tests.gateway_rules import (
    ACCEPTED_GATEWAYS,
    ACCEPTED_ROUTES,
    GATEWAYS_BY_SERVER,
    ROUTES_BY_SERVER,
)


# llm-d's tables are not covered, because its sources are not on the module proxy.
@pytest.mark.parametrize("tool", ["schemas.py", "picker_plugins.py"])
def test_tables_match_pinned_modules(tool: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / tool), "--check"]
    output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert output.returncode == 0, output.stderr


def find_rejection(cluster: Cluster, kind: str, spec: dict[str, Any]) -> str | None:
    version = "gateway.networking.k8s.io/v1"
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    assert filter_errors(object_findings(manifest)) == []
    try:
        cluster.apply([manifest], namespace="default", dry_run=True)
    except ApiError as rejected:
        return str(rejected)
    return None


@pytest.mark.parametrize(
    ("kind", "spec", "accepted"),
    [
        *(("HTTPRoute", spec, False) for spec, _ in ROUTES_BY_SERVER),
        *(("Gateway", spec, False) for spec, _ in GATEWAYS_BY_SERVER),
        *(("HTTPRoute", spec, True) for spec in ACCEPTED_ROUTES),
        *(("Gateway", spec, True) for spec in ACCEPTED_GATEWAYS),
    ],
)
def test_server_agrees_on_routes_and_gateways(
    cluster: Cluster, kind: str, spec: dict[str, Any], *, accepted: bool
) -> None:
    assert (find_rejection(cluster, kind, spec) is None) == accepted
