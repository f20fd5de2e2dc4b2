"""Routes and Gateways follow the rules that the Gateway API writes in CEL."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_rules import (
    EXPERIMENTAL_BY_SERVER,
    GATEWAYS,
    GATEWAYS_BY_SERVER,
    ROUTES,
    ROUTES_BY_SERVER,
    TAKEN_EXPERIMENTAL,
    TAKEN_GATEWAYS,
    TAKEN_ROUTES,
    Spec,
)
from routed import routed
from samples import problems

from fusioninfer_pulumi.api.gateway_rules import gateway_rule_findings, route_rule_findings
from fusioninfer_pulumi.findings import errors
from fusioninfer_pulumi.schemas.check import part_findings
from fusioninfer_pulumi.schemas.kind import GATEWAY, HTTP_ROUTE


@pytest.mark.parametrize(("spec", "rule", "path"), ROUTES)
def test_a_route_that_the_rules_refuse_is_refused(spec: Spec, rule: str, path: str) -> None:
    assert errors(part_findings((), spec, HTTP_ROUTE)) == []
    found = list(route_rule_findings((), spec))
    assert [(each.rule, each.path) for each in found] == [(rule, path)]


@pytest.mark.parametrize("spec", [*TAKEN_ROUTES, *TAKEN_EXPERIMENTAL])
def test_a_route_that_the_rules_take_is_taken(spec: Spec) -> None:
    assert errors([*part_findings((), spec, HTTP_ROUTE), *route_rule_findings((), spec)]) == []


@pytest.mark.parametrize(("spec", "rule", "path"), GATEWAYS)
def test_a_gateway_that_the_rules_refuse_is_refused(spec: Spec, rule: str, path: str) -> None:
    assert part_findings((), spec, GATEWAY) == []
    found = list(gateway_rule_findings((), spec))
    assert [(each.rule, each.path) for each in found] == [(rule, path)]


@pytest.mark.parametrize("spec", TAKEN_GATEWAYS)
def test_a_gateway_that_the_rules_take_is_taken(spec: Spec) -> None:
    assert [*part_findings((), spec, GATEWAY), *gateway_rule_findings((), spec)] == []


def test_findings_name_the_field_of_the_router() -> None:
    given: dict[str, Any] = {"rules": [{"matches": [{"path": {"value": "v1"}}]}]}
    assert problems(routed(httproute=given, gateway={"refs": [{"name": "g"}]})) == [
        (
            "roles[0].httproute.rules[0].matches[0].path.value: must be an absolute path such as "
            '/v1/models, without //, /./ or #, got "v1"'
        )
    ]


@pytest.mark.parametrize("spec", [spec for spec, _ in (*ROUTES_BY_SERVER, *EXPERIMENTAL_BY_SERVER)])
def test_the_rest_of_routes_is_left_to_the_server(spec: Spec) -> None:
    assert errors([*part_findings((), spec, HTTP_ROUTE), *route_rule_findings((), spec)]) == []


@pytest.mark.parametrize("spec", [spec for spec, _ in GATEWAYS_BY_SERVER])
def test_the_rest_of_gateways_is_left_to_the_server(spec: Spec) -> None:
    assert [*part_findings((), spec, GATEWAY), *gateway_rule_findings((), spec)] == []


def test_an_output_is_never_a_finding(output: Any) -> None:
    listener = {"name": "a", "port": 80, "protocol": "HTTP", "hostname": output("a.example.com")}
    other = {**listener, "name": "b", "hostname": output("b.example.com")}
    assert list(gateway_rule_findings((), {"listeners": [listener, other]})) == []
