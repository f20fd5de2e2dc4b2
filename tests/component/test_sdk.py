"""The undocumented parts of Pulumi's SDK that the component uses still exist."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest
from google.protobuf.struct_pb2 import Value
from pulumi.runtime import rpc

from fusioninfer_pulumi.component.kubernetes_objects import KubernetesObject
from fusioninfer_pulumi.component.pulumi_sdk import (
    SIGNATURE,
    get_protobuf_value,
    get_python_value,
    read_stack_resources,
)

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.mark.parametrize("value", [pulumi.StringAsset("x"), pulumi.AssetArchive({})])
def test_secrets_and_assets_have_signature_key(value: object) -> None:
    assert SIGNATURE in asyncio.run(rpc.serialize_property(value, [], None))
    assert SIGNATURE in rpc.wrap_rpc_secret(1)


def test_state_values_are_read_through_secrets() -> None:
    value = Value()
    secret = rpc.wrap_rpc_secret({"size": rpc.wrap_rpc_secret(2.0), "name": "a"})
    value.struct_value.update({"spec": secret})
    assert get_python_value(value, "spec", "size") == 2
    assert get_protobuf_value(value, "spec", "absent") is None


def test_monitor_returns_stack_resources(engine: Any) -> None:
    engine.state = {"urn:pulumi:dev::app::acme:index:Made::made": {"outputs": {"size": 1}}}
    answers: list[Any] = []

    def program() -> None:
        answers.append(read_stack_resources())

    engine.run(program)
    ((urn, resource),) = answers[0].items()
    assert (urn, get_python_value(resource, "outputs", "size")) == (*engine.state, 1)


def test_dependents_of_held_resource_wait(engine: Any) -> None:
    order: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0.05)
        order.append("released")

    def program() -> None:
        first = KubernetesObject("first", MANIFEST)
        first.hold(pulumi.Output.from_input(later()))
        second = KubernetesObject("second", MANIFEST, pulumi.ResourceOptions(depends_on=[first]))
        second.metadata.apply(lambda _: order.append("second"))

    engine.run(program)
    assert order == ["released", "second"]
