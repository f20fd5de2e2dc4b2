"""What of a program's objects is secret or unknown, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from fusioninfer_pulumi.cli.program import ProgramError, Recording, Secrets, run_program

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


def test_what_the_api_server_sets_is_unknown(run: Run) -> None:
    recording = run(
        """
        service = k8s.core.v1.Service(
            "web", metadata={"name": "web"}, spec={"ports": [{"port": 80}]})
        named = k8s.core.v1.ConfigMap("named", metadata={"generateName": "x-"}, data={})
        claim = k8s.core.v1.PersistentVolumeClaim("c", metadata={"name": "c"}, spec={})
        custom = k8s.apiextensions.CustomResource(
            "r", api_version="x.io/v1", kind="C", metadata={"name": "r"}, spec={})
        k8s.core.v1.ConfigMap("unknown", metadata={"name": "unknown"}, data={
            "address": service.spec.cluster_ip,
            "addresses": service.spec.cluster_ips[0],
            "both": pulumi.Output.all(service.metadata.uid, 1).apply(lambda all: all[0][:1]),
            "claimed": claim.spec.volume_name,
            "concat": pulumi.Output.concat("http://", service.spec.cluster_ip, ":80"),
            "generation": service.metadata.generation.apply(str),
            "item": service.metadata["uid"],
            "name": named.metadata.name,
            "status": service.status.apply(lambda status: status.load_balancer),
            "uid": service.metadata.uid,
            "untyped": custom.metadata["uid"],
            "untypedText": pulumi.Output.concat("v", custom.metadata["resourceVersion"]),
            "uids": named.metadata.uid,
            "version": service.metadata.resource_version,
            "written": service.metadata.creation_timestamp,
        })
        """
    )
    *_, facts = manifests(recording)
    assert {key for key, value in facts["data"].items() if value != "<unknown>"} == set()
    assert len(facts["data"]) == 15


def test_what_a_program_sets_is_known_beside_what_the_server_sets(run: Run) -> None:
    recording = run(
        """
        async def later(meta):
            return meta.name

        headless = k8s.core.v1.Service("web", metadata={"name": "web", "uid": "mine"}, spec={
            "clusterIP": "None", "ports": [{"port": 80}]})
        meta, spec = headless.metadata, headless.spec
        k8s.core.v1.ConfigMap("known", metadata={"name": "known"}, data={
            "address": spec.cluster_ip,
            "applied": spec.apply(lambda spec: spec["cluster_ip"]),
            "later": meta.apply(later),
            "name": meta.apply(lambda meta: meta.name),
            "none": spec.apply(lambda spec: str(spec.ip_families)),
            "of": meta.apply(lambda meta: type(meta).__name__),
            "uid": meta.uid,
            "whole": pulumi.Output.json_dumps(meta),
        })
        """
    )
    *_, facts = manifests(recording)
    assert facts["data"] == {
        "address": "None",
        "applied": "None",
        "later": "web",
        "name": "web",
        "none": "None",
        "of": "ObjectMeta",
        "uid": "mine",
        "whole": '{"name": "web", "uid": "mine"}',
    }


def test_a_key_of_the_programs_own_is_still_missed(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(
        "import pulumi\npulumi.Output.from_input({'size': 1}).apply(lambda own: own['uid'])\n"
    )
    with pytest.raises(ProgramError, match="KeyError: 'uid'"):
        run_program(tmp_path)


def test_outputs_are_as_before_when_a_program_has_run(run: Run) -> None:
    before = pulumi.Output.apply
    run("""k8s.core.v1.ConfigMap("a", metadata={"name": "a"})""")
    assert pulumi.Output.apply is before


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
    # pulumi_kubernetes makes all data of a Secret secret; its keys are shown.
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


def test_a_secret_that_is_unknown_is_masked(run: Run) -> None:
    recording = run(
        """
        password = pulumi.StackReference("acme/vault/prod").get_output("password")
        k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={
            "password": pulumi.Output.secret(password)})
        """
    )
    # The oldest SDK forgets that an unknown value is secret.
    (found,) = manifests(recording)
    assert found["data"]["password"] in {"<secret>", "<unknown>"}


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
