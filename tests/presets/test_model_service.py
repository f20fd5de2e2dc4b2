"""`model_service`: a service from the name of its model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi import (
    EngineArgs,
    InferenceServiceArgs,
    InvalidServiceError,
    ModelArgs,
    RoleArgs,
    model_service,
    plan_service,
)
from fusioninfer_pulumi.generated import dicts
from fusioninfer_pulumi.presets.model_service import ROLE_FIELDS


def named(args: InferenceServiceArgs) -> Mapping[str, RoleArgs]:
    return {role.name: role for role in args.roles}


@each_row(
    ("model", "uri"),
    [
        ("Qwen/Qwen3-8B", "hf://Qwen/Qwen3-8B"),
        ("s3://models/qwen", "s3://models/qwen"),
        (ModelArgs(uri="pvc://models/qwen"), "pvc://models/qwen"),
        ({"uri": "hf://Qwen/Qwen3-8B", "token_secret": {"name": "hub"}}, "hf://Qwen/Qwen3-8B"),
    ],
)
def test_model_may_be_name_uri_or_model_args(model: Any, uri: str) -> None:
    args = model_service(model, accelerator="H100")
    assert args.model is not None
    assert args.model.uri == uri


def test_service_has_one_serving_role_by_default() -> None:
    args = model_service("Qwen/Qwen3-8B", accelerator="H100", replicas=3)
    (role,) = args.roles
    assert (role.name, role.replicas, role.accelerator) == ("serve", 3, "H100")
    assert plan_service(args, "qwen").total_accelerators == 3


def test_prefill_replicas_add_a_role_and_a_router() -> None:
    args = model_service("Qwen/Qwen3-8B", accelerator="H100", replicas=2, prefill_replicas=1)
    roles = named(args)
    assert list(roles) == ["router", "prefill", "decode"]
    assert (roles["prefill"].replicas, roles["decode"].replicas) == (1, 2)


def test_router_may_be_a_mapping_or_role_args() -> None:
    router = {"strategy": "queue-size", "gateway": {"implementation": "istio"}, "httproute": {}}
    args = model_service("Qwen/Qwen3-8B", accelerator="H100", router=router)
    assert named(args)["router"].strategy == "queue-size"
    role = RoleArgs(name="front", component_type="router")
    assert list(named(model_service("a/b", accelerator=None, gpus=1, router=role))) == [
        "front",
        "serve",
    ]


@pytest.mark.parametrize("engine", ["0.33.0", {"version": "0.33.0"}, EngineArgs(version="0.33.0")])
def test_engine_may_be_a_release_or_engine_args(engine: Any) -> None:
    args = model_service("Qwen/Qwen3-8B", accelerator="H100", engine=engine)
    (running,) = plan_service(args, "qwen").engines
    assert (running.release, running.is_default) == ("0.33.0", False)


def test_additional_fields_go_to_the_service_or_its_serving_roles() -> None:
    args = model_service(
        "team/chat", accelerator=None, prefill_replicas=1, router={}, gpus=4, namespace="team",
        image_registry="registry.example.com", template={"spec": {"nodeSelector": {"a": "b"}}},
    )  # fmt: skip
    roles = named(args)
    assert (args.namespace, args.image_registry) == ("team", "registry.example.com")
    assert roles["router"].gpus is None
    assert (roles["prefill"].gpus, roles["decode"].gpus) == (4, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": 0}, "roles[0].gpus: must be at least 1, got 0"),
        ({"router": 3}, "roles[0]: must be a mapping, got 3"),
    ],
)
def test_invalid_fields_are_reported(fields: Any, message: str) -> None:
    with pytest.raises(InvalidServiceError, match=re.escape(message)):
        model_service("Qwen/Qwen3-8B", accelerator="H100", **fields)


def test_type_checkers_know_the_additional_fields() -> None:
    known = dicts.ModelServiceDict.__annotations__
    assert set(ROLE_FIELDS) <= set(known)
    service = set(InferenceServiceArgs.model_fields) - {"model", "roles", "engine"}
    assert set(known) == {*ROLE_FIELDS, *service}
    assert not service & set(ROLE_FIELDS)


def test_unknown_field_suggests_the_python_name() -> None:
    with pytest.raises(InvalidServiceError) as rejected:
        model_service("Qwen/Qwen3-8B", accelerator="H100", replica=3, zebra=1)
    first, second = map(str, rejected.value.findings)
    assert first == "replica: unknown field; did you mean replicas?"
    assert second == "zebra: unknown field"
