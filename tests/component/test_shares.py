"""Shares of requests for another service of the same program."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, routed
from samples import Manifest, role, service

from fusioninfer_pulumi import InferenceService, InvalidServiceError
from fusioninfer_pulumi.findings import Severity

CHAT = {**ROUTE, "split": [{"service": "next", "weight": 10}]}


def create_service(name: str, manifest: Manifest) -> InferenceService:
    return InferenceService(name, manifest["spec"])


def test_share_of_a_service_without_pool_is_rejected(engine: Any) -> None:
    def program() -> None:
        create_service("next", service(role()))
        with pytest.raises(InvalidServiceError) as rejected:
            create_service("chat", routed(httproute=CHAT))
        assert str(rejected.value).startswith(
            "chat: roles[0].httproute.split[0].service: next has no InferencePool next-pool"
        )

    engine.run(program)


def test_valid_pair_of_services_has_no_warnings(engine: Any) -> None:
    routes: Manifest = {"chat": CHAT, "next": {"routedBy": "chat"}}

    def program() -> None:
        for order in (("chat", "next"), ("next", "chat")):
            for name in order:
                route = dict(routes[name])
                if "hostnames" in route:  # the pairs route different hosts
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
