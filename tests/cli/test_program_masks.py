"""What of a program's objects is secret or unknown, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusioninfer_pulumi.cli.program import Recording, Secrets

Run = Callable[..., Recording]


def manifests(recording: Recording) -> list[dict[str, Any]]:
    return [resource.manifest for resource in recording.resources]


def test_what_only_the_cluster_knows_is_unknown(run: Run) -> None:
    recording = run(
        """
        service = k8s.core.v1.Service(
            "web", metadata={"name": "web"}, spec={"ports": [{"port": 80}]})
        unnamed = k8s.core.v1.ConfigMap("unnamed", data={})
        ip = service.status.load_balancer.ingress[0].ip
        k8s.core.v1.ConfigMap("facts", metadata={"name": "facts"}, data={
            "ip": ip,
            "url": pulumi.Output.concat("http://", ip, ":80"),
            "format": pulumi.Output.format("{0}/{1}", ip, "x"),
            "apply": ip.apply(lambda text: text.upper()),
            "id": service.id,
            "uid": service.metadata.name.apply(lambda name: name),
            "name": unnamed.metadata.name,
            "port": service.spec.ports[0].port.apply(str),
        })
        """
    )
    _, unnamed, facts = manifests(recording)
    assert unnamed["metadata"] == {"name": "unnamed-<unknown>"}
    assert facts["data"] == {
        "apply": "<unknown>",
        "format": "<unknown>",
        "id": "<unknown>",
        "ip": "<unknown>",
        "name": "<unknown>",
        "port": "80",
        "uid": "web",
        "url": "<unknown>",
    }


SECRETS = """
    config = pulumi.Config()
    secret = pulumi.Output.secret("hunter2")
    k8s.core.v1.Secret("a", metadata={"name": "a"}, string_data={
        "password": secret,
        "url": pulumi.Output.concat("https://user:", secret, "@host"),
        "plain": "text",
    })
    k8s.core.v1.Secret("b", metadata={"name": pulumi.Output.secret("b")},
                       string_data=pulumi.Output.secret({"one": "1"}))
    k8s.apiextensions.CustomResource("c", api_version="x.io/v1", kind="C",
        metadata=pulumi.Output.secret({"name": "c"}),
        spec={"list": [secret, "open"], "deep": {"number": pulumi.Output.secret(3)}})
    """


def test_secrets_are_masked(run: Run) -> None:
    first, second, third = manifests(run(SECRETS))
    # pulumi_kubernetes makes all data of a Secret secret; the object keeps its shape.
    assert first["stringData"] == {"password": "<secret>", "plain": "<secret>", "url": "<secret>"}
    assert second["metadata"] == {"name": "<secret>"}
    assert second["stringData"] == {"one": "<secret>"}
    assert third["metadata"] == {"name": "<secret>"}
    assert third["spec"] == {"deep": {"number": "<secret>"}, "list": ["<secret>", "open"]}


def test_secrets_are_shown_on_demand(run: Run) -> None:
    first, second, third = manifests(run(SECRETS, secrets=Secrets.SHOWN))
    assert first["stringData"] == {
        "password": "hunter2",
        "plain": "text",
        "url": "https://user:hunter2@host",
    }
    assert second["metadata"] == {"name": "b"}
    assert second["stringData"] == {"one": "1"}
    assert third["metadata"] == {"name": "c"}
    assert third["spec"] == {"deep": {"number": 3}, "list": ["hunter2", "open"]}


def test_what_passes_through_a_secret_resource_stays_secret(run: Run) -> None:
    recording = run(
        """
        first = k8s.core.v1.Secret("a", metadata={"name": "a"},
                                   string_data={"key": pulumi.Output.secret("hunter2")})
        k8s.core.v1.ConfigMap("b", metadata={"name": "b"},
                              data={"copy": first.string_data["key"]})
        """
    )
    assert manifests(recording)[1]["data"] == {"copy": "<secret>"}


def test_unknown_values_survive_a_transform(run: Run) -> None:
    recording = run(
        """
        def same(args):
            return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)

        first = k8s.core.v1.ConfigMap("a")
        k8s.core.v1.ConfigMap("b", metadata={"name": "b"}, data={"of": first.metadata.name},
                              opts=pulumi.ResourceOptions(transforms=[same]))
        """
    )
    assert manifests(recording)[1]["data"] == {"of": "<unknown>"}
