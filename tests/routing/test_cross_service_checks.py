"""Checks of several services in one input: shares of requests, Gateways, names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from printed_findings import without_rules
from routed import ROUTE, routed, router
from rows import each_row
from samples import Manifest, container, role, service, template

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.loading import load

SPLIT = "roles[0].httproute.split[0].service: "
BY = "roles[0].httproute.routedBy: "
AGENT = {"implementation": "agentgateway"}


def named(name: str, model: str = "m", namespace: str = "default", **fields: Any) -> Manifest:
    env = [{"name": "MODEL", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "name"}}}]
    args = ["--model", "x", "--served-model-name", *model.split()]
    value = template(container(args=args, env=env))
    built = router(gateway=AGENT, networkPolicy={"gatewayNamespace": "gateways"}, **fields)
    metadata = {"name": name, "namespace": namespace}
    return service(built, role(template=value), metadata=metadata)


def chat(to: str = "next", weight: int = 10, **more: Any) -> Manifest:
    shares = [{"service": to, "weight": weight}]
    return named("chat", httproute={**ROUTE, "split": shares}, **more)


def target(by: str = "chat", name: str = "next", **more: Any) -> Manifest:
    return named(name, httproute={"routedBy": by}, **more)


def at_zero() -> Manifest:
    manifest = target()
    manifest["spec"]["roles"][1]["replicas"] = 0
    return manifest


def to_pool(**more: Any) -> Manifest:
    return {**ROUTE, "rules": [{"backendRefs": [{**POOL, **more}]}]}


def check(*manifests: Manifest) -> list[str]:
    """Return errors and warnings, each with the name of its service."""
    plans = plan_services([args for manifest in manifests for args in load(manifest)])
    return [
        f"{plan.service}: {finding}"
        for plan in plans
        for finding in plan.findings
        if finding.severity is not Severity.INFO
    ]


POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "next-pool"}
BY_HEADER = {**ROUTE, "rules": [{"matches": [{"headers": [{"name": "x-next", "value": "1"}]}]}]}
PLAIN = service(role(), metadata={"name": "next"})

VALID: dict[str, list[Manifest]] = {
    "both": [chat(), target()],
    "one alone": [chat()],
    "the other alone": [target()],
    "by backendRefs": [named("chat", httproute=to_pool()), target()],
    "a route by a header beside it": [chat(), named("next", httproute=BY_HEADER)],
    "scaled to zero and without requests": [chat(weight=0), at_zero()],
    "a route that takes over": [chat(weight=100), named("next", httproute=ROUTE)],
}  # fmt: skip

MISSING = "its share of requests fails unless the cluster has one"
#: Differences of the two services, and how the only finding starts.
INVALID: dict[str, tuple[list[Manifest], str]] = {
    "a typo": (
        [chat("nxet"), named("next", httproute=BY_HEADER)],
        (f"chat: warning: {SPLIT}the input has no service nxet in namespace default: {MISSING}; "
        "did you mean next?"),
    ),
    "none of them": (
        [chat("canary"), named("x", httproute=BY_HEADER)],
        f"chat: warning: {SPLIT}the input has no service canary in namespace default: {MISSING}",
    ),
    "another namespace": (
        [chat(namespace="a"), named("next", httproute=BY_HEADER, namespace="b")],
        f"chat: warning: {SPLIT}the input has no service next in namespace a: {MISSING}",
    ),
    "no router": (
        [chat(), PLAIN],
        (f"chat: {SPLIT}next has no InferencePool next-pool: its share of requests fails; give it "
        "a role of componentType router with an endpoint picker"),
    ),
    "no router, and no request yet": (
        [chat(weight=0), PLAIN], f"chat: warning: {SPLIT}next has no InferencePool next-pool"),
    "no route": (
        [service(role(), metadata={"name": "chat"}), target()],
        f"next: warning: {BY}chat has no route: this service receives no requests"),
    "a slip back": (
        [named("chat", httproute=ROUTE), target("chatt")],
        (f"next: warning: {BY}the input has no service chatt in namespace default: this service "
        "receives no requests unless the cluster has one; did you mean chat?"),
    ),
}  # fmt: skip


@each_row("case", VALID)
def test_services_that_refer_to_each_other_have_no_finding(case: str) -> None:
    assert check(*VALID[case]) == []


@each_row("case", INVALID)
def test_missing_target_is_reported_once(case: str) -> None:
    manifests, wanted = INVALID[case]
    for order in (manifests, manifests[::-1]):
        (finding,) = check(*order)
        assert finding.startswith(wanted)


def test_split_conflicts_with_route_for_same_requests() -> None:
    (finding,) = check(chat(), named("next", httproute=ROUTE))
    assert "the older route receives all of them" in finding


def test_namespace_output_is_compared_by_identity(output: Any) -> None:
    one, two = output("a"), output("a")
    assert check(chat(namespace=one), named("next", httproute=BY_HEADER, namespace=two)) == []
    assert check(chat(namespace=one), named("next", httproute=BY_HEADER, namespace=one)) == []


@pytest.mark.parametrize("form", ["one file", "several files", "a folder"])
@pytest.mark.parametrize("command", ["check", "plan", "render"])
def test_every_command_reports_split_to_service_without_pool(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, form: str
) -> None:
    if form == "one file":
        (tmp_path / "f.yaml").write_text(yaml.safe_dump_all([chat(), PLAIN]), encoding="utf-8")
        names = [str(tmp_path / "f.yaml")]
    else:
        for name, manifest in (("chat", chat()), ("next", PLAIN)):
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
        files = [str(tmp_path / "chat.yaml"), str(tmp_path / "next.yaml")]
        names = [str(tmp_path)] if form == "a folder" else files
    assert main([command, *names]) == 2
    lines = without_rules(capsys.readouterr().err).splitlines()
    (line,) = [item for item in lines if "warning" not in item]
    label = "f.yaml" if form == "one file" else "chat.yaml"
    assert line.startswith(f"{tmp_path / label}: {SPLIT}next has no InferencePool")


def test_rejected_service_may_be_the_split_target(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rejected = target()
    rejected["spec"]["roles"][0]["replicas"] = -1
    fine = named("x", httproute=BY_HEADER)
    (tmp_path / "f.yaml").write_text(yaml.safe_dump_all([chat(), fine, rejected]), encoding="utf-8")
    assert main(["check", str(tmp_path / "f.yaml")]) == 2
    assert "none of the services" not in capsys.readouterr().err


def test_policies_of_two_services_do_not_collide() -> None:
    guarded = {"networkPolicy": {"gateway": [{"podSelector": {}}]}}
    one, two = routed(role("b-c"), **guarded), routed(role("c"), **guarded)
    one["metadata"]["name"], two["metadata"]["name"] = "a", "a-b"
    plans = plan_services([*load(one), *load(two)])
    expected = [str(finding) for finding in plans[1].findings if "Objects named" in str(finding)]
    assert expected == [
        (
            'roles[1].name: Objects named "a-b-c" would also belong to role b-c of service a; '
            "rename one of them"
        )
    ]
    free = plan_services(
        [*load(service(role("x"))), *load(routed(role("x"), metadata={"name": "o"}))]
    )
    assert not [finding for plan in free for finding in plan.findings if "Policy" in str(finding)]
