"""A program is told of shares of requests that do not arrive at another of its services."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, routed
from samples import Manifest, role, service

from fusioninfer_pulumi import InferenceService, InvalidServiceError
from fusioninfer_pulumi.findings import Severity

CHAT = {**ROUTE, "split": [{"service": "next", "weight": 10}]}


def made(name: str, manifest: Manifest) -> InferenceService:
    return InferenceService(name, manifest["spec"])


def test_a_program_is_told_of_the_services_made_so_far(engine: Any) -> None:
    def program() -> None:
        made("chat", routed(httproute=CHAT))
        with pytest.raises(InvalidServiceError) as refused:
            made("next", service(role()))
        assert str(refused.value).startswith(
            "next: roles[0].httproute.split[0].service of service chat: next has no router"
        )
        made("talk", routed(httproute=ROUTE))
        plan = made("other", routed(httproute={"routedBy": "talk"})).plan
        assert any(
            "the route of talk does not lead here" in finding.message for finding in plan.findings
        )

    logged = engine.run(program).logged
    (line,) = [each for each in logged if "routedBy" in each]
    assert line.startswith("warning: roles[0].httproute.routedBy: the route of talk does not lead")


def test_a_pair_that_fits_is_not_told_in_either_order(engine: Any) -> None:
    routes: Manifest = {"chat": CHAT, "next": {"routedBy": "chat"}}

    def program() -> None:
        for order in (("chat", "next"), ("next", "chat")):
            for name in order:
                route = dict(routes[name])
                if "hostnames" in route:  # the first pair has the other one's requests
                    route["hostnames"] = [f"{order[0]}.example.com"]
                fields = routed(
                    httproute=route,
                    gateway={"implementation": "agentgateway"},
                    networkPolicy={"enabled": False},
                )
                spec = {**fields["spec"], "name": name, "namespace": order[0]}
                plan = InferenceService(f"{order[0]}-{name}", spec).plan
                assert not [
                    finding for finding in plan.findings if finding.severity is Severity.WARNING
                ]

    engine.run(program)
