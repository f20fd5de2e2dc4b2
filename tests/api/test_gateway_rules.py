"""Schemas accept routes and Gateways that only violate CEL rules, which the API server checks."""

from __future__ import annotations

from gateway_rules import (
    ACCEPTED_EXPERIMENTAL,
    ACCEPTED_GATEWAYS,
    ACCEPTED_ROUTES,
    EXPERIMENTAL_BY_SERVER,
    GATEWAYS_BY_SERVER,
    ROUTES_BY_SERVER,
    Spec,
)
from rows import each_row

from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.schemas.kind_schema import GATEWAY, HTTP_ROUTE, Part
from fusioninfer_pulumi.schemas.schema_check import part_findings

ROUTES = [spec for spec, _ in (*ROUTES_BY_SERVER, *EXPERIMENTAL_BY_SERVER)]
GATEWAYS = [spec for spec, _ in GATEWAYS_BY_SERVER]


@each_row(
    ("part", "spec"),
    [
        *((HTTP_ROUTE, spec) for spec in (*ROUTES, *ACCEPTED_ROUTES, *ACCEPTED_EXPERIMENTAL)),
        *((GATEWAY, spec) for spec in (*GATEWAYS, *ACCEPTED_GATEWAYS)),
    ],
)
def test_schema_accepts_specs_that_only_the_server_rejects(part: Part, spec: Spec) -> None:
    assert filter_errors(part_findings((), spec, part)) == []
