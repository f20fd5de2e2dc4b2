"""Builds a service from the name of a model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.api.engine import EngineArgs
from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import InvalidServiceError, closest_name, error
from fusioninfer_pulumi.rules.common import UNKNOWN_KEY

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fusioninfer_pulumi.generated import dicts

#: Names in `additional_fields` that are fields of the serving roles; others are of the service.
ROLE_FIELDS = (
    "autoscaling", "gpus", "kv_cache_offloading", "kv_events", "kv_transfer", "multinode",
    "parallelism", "port", "resource_claims", "startup", "template", "topology_spread",
)  # fmt: skip


def model_service(
    model: str | ModelArgs | dicts.ModelArgsDict,
    *,
    accelerator: str | None,
    replicas: int = 1,
    prefill_replicas: int = 0,
    router: RoleArgs | dicts.RouterDict | None = None,
    engine: EngineArgs | dicts.EngineArgsDict | str | None = None,
    **additional_fields: Unpack[dicts.ModelServiceDict],
) -> InferenceServiceArgs:
    """Return a service that serves a model; the library generates its containers.

    Args:
        model: The model's name on Hugging Face, a `uri` such as `s3://bucket/key`, or the field
            `model` of a service.
        accelerator: Model of the GPUs, such as `H100`, or `cpu`. May be None if `gpus` or
            `parallelism` sets the number of GPUs; GPU memory is then not checked.
        replicas: Replicas that generate tokens.
        prefill_replicas: Replicas for disaggregated prefill; 0 for no disaggregation.
        router: The router role, or its fields, such as `{"gateway": {...}, "httproute": {...}}`.
            By default there is a router only if `prefill_replicas` is set; otherwise a Kubernetes
            Service is the endpoint.
        engine: The engine and its release; text such as `0.32.0` is a release of vLLM.
        additional_fields: Fields of the service, such as `namespace`, `wait` or `monitoring`, and
            of its serving roles, such as `gpus`, `template` or `autoscaling`.

    Raises:
        InvalidServiceError: If a field is unknown or invalid; the exception has all findings.
    """
    fields: dict[str, Any] = dict(additional_fields)
    # Messages also suggest the names of parameters.
    known_names = {*inspect.signature(model_service).parameters, *ROLE_FIELDS}
    known_names |= {*InferenceServiceArgs.model_fields} - {"roles"}
    findings = []
    for name in sorted(set(fields) - known_names):
        closest = closest_name(name, known_names)
        message = f"unknown field; did you mean {closest}?" if closest else "unknown field"
        findings.append(error(UNKNOWN_KEY, (name,), message))
    if findings:
        raise InvalidServiceError(findings, "model_service")
    role_fields = {name: fields.pop(name) for name in ROLE_FIELDS if name in fields}
    if accelerator is not None:
        role_fields["accelerator"] = accelerator
    serving_roles = [(ComponentType.WORKER, "serve", replicas)]
    if prefill_replicas:
        serving_roles = [
            (ComponentType.PREFILLER, "prefill", prefill_replicas),
            (ComponentType.DECODER, "decode", replicas),
        ]
    roles: list[Any] = [
        {"name": name, "component_type": component_type, "replicas": count, **role_fields}
        for component_type, name, count in serving_roles
    ]
    if router is None and prefill_replicas:
        router = {}
    if isinstance(router, Mapping):
        router_fields = {"name": "router", "component_type": ComponentType.ROUTER, **router}
        roles.insert(0, router_fields)
    elif router is not None:
        roles.insert(0, router)
    if isinstance(model, str):
        model = {"uri": model if "://" in model else f"hf://{model}"}
    if engine is not None:
        fields["engine"] = {"version": engine} if isinstance(engine, str) else engine
    return InferenceServiceArgs(model=model, roles=roles, **fields)  # type: ignore[arg-type]  # pydantic validates the fields
