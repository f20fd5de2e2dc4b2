"""Fields that are only copied to objects accept Outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from json_schema import fields_schema
from rows import each_row
from samples import container, prefill_decode, role, service, template

from fusioninfer_pulumi import InferenceServiceArgs, plan_service, render
from fusioninfer_pulumi.api.field_types import OUTPUT_MARK
from fusioninfer_pulumi.findings import Finding, filter_errors


def marked(schema: Any) -> bool:
    if isinstance(schema, dict):
        return OUTPUT_MARK in schema or any(marked(item) for item in schema.values())
    return isinstance(schema, list) and any(marked(item) for item in schema)


def model(uri: str = "hf://a/b", **more: Any) -> Any:
    return service(role(template=template(container(args=[]))), model={"uri": uri, **more})


def cached(job: Any = None, **cache: Any) -> Any:
    return model(cache={"warmUp": True, **cache, **({"job": job} if job else {})})


def router(**more: Any) -> Any:
    return service({"name": "router", "componentType": "router", **more}, role())


def picked(**more: Any) -> Any:
    return router(endpointPicker=more)


def offloaded(name: Any) -> Any:
    disk = {"fileSystem": {"pvc": {"ref": {"name": name}}}}
    offloading = {"cpu": "8Gi", "secondary": [disk]}
    serving = container(
        image="vllm/vllm-openai:v0.22.0",
        gpus="1",
        resources={"limits": {"nvidia.com/gpu": "1", "memory": "100Gi"}},
    )
    return service(role(template=template(serving), kvCacheOffloading=offloading))


def monitored(name: Any) -> Any:
    result = router(endpointPicker={"metrics": "Authenticated"})
    result["spec"]["roles"][1]["template"] = template(
        container(ports=[{"name": "http", "containerPort": 8000}])
    )
    result["spec"]["monitoring"] = {"pickerToken": {"name": name}}
    return result


def paired(image: Any) -> Any:
    result = prefill_decode({"kvTransfer": {}}, {"kvTransfer": {"sidecar": {"image": image}}})
    result["spec"]["roles"].append({"name": "router", "componentType": "router"})
    return result


CASES: dict[str, Callable[[Any], Any]] = {
    "InferenceServiceArgs.namespace": lambda out: service(metadata={"namespace": out}),
    "InferenceServiceArgs.labels": lambda out: service(metadata={"labels": {"a": out}}),
    "InferenceServiceArgs.annotations": lambda out: service(metadata={"annotations": {"a": out}}),
    "InferenceServiceArgs.podLabels": lambda out: service(role(), podLabels={"a": out}),
    "InferenceServiceArgs.podAnnotations": lambda out: service(role(), podAnnotations={"a": out}),
    "RoleArgs.podLabels": lambda out: service(role(podLabels={"a": out})),
    "RoleArgs.podAnnotations": lambda out: service(role(podAnnotations={"a": out})),
    "AutoscalingArgs.annotations": lambda out: service(
        role(
            autoscaling={
                "maxReplicas": 2,
                "metrics": [{"name": "queue", "target": 5}],
                "annotations": {"a": out},
            }
        ),
        layout="PerRole",
    ),
    "SchedulingStrategyArgs.queue": lambda out: prefill_decode(schedulingStrategy={"queue": out}),
    "SecretKeyArgs.name": lambda out: model(tokenSecret={"name": out}),
    "S3Args.secretName": lambda out: model("s3://b/k", s3={"secretName": out}),
    "S3Args.endpoint": lambda out: model("s3://b/k", s3={"endpoint": out}),
    "S3Args.region": lambda out: model("s3://b/k", s3={"region": out}),
    "ModelArgs.imagePullSecrets": lambda out: model("oci://a/b", imagePullSecrets=[out]),
    "FetcherArgs.image": lambda out: model("s3://b/k", fetcher={"image": out}),
    "StorageArgs.storageClassName": lambda out: cached(
        storage={"size": "1Gi", "storageClassName": out}
    ),
    "CacheArgs.claimName": lambda out: cached(claimName=out),
    "WarmUpJobArgs.nodeSelector": lambda out: cached({"nodeSelector": {"a": out}}, claimName="c"),
    "WarmUpJobArgs.serviceAccountName": lambda out: cached(
        {"serviceAccountName": out}, claimName="c"
    ),
    "ResourceClaimArgs.templateName": lambda out: service(
        role(resourceClaims=[{"name": "a", "templateName": out}])
    ),
    "ResourceClaimArgs.claimName": lambda out: service(
        role(resourceClaims=[{"name": "a", "claimName": out}])
    ),
    "ClaimReferenceArgs.name": offloaded,
    "TokenSecretArgs.name": monitored,
    "PickerTlsArgs.secretName": lambda out: picked(tls={"secretName": out}),
    "EndpointPickerArgs.image": lambda out: picked(image=out, family="gaie-1.2"),
    "GatewayArgs.gatewayClassName": lambda out: router(gateway={"gatewayClassName": out}),
    "GatewayArgs.annotations": lambda out: router(gateway={"annotations": {"a": out}}),
    "GatewayRefArgs.namespace": lambda out: router(
        gateway={"refs": [{"name": "g", "namespace": out}]}
    ),
    "HttpRouteArgs.hostnames": lambda out: router(gateway={}, httproute={"hostnames": [out]}),
    "HttpRouteRefArgs.namespace": lambda out: router(
        httproute={"refs": [{"name": "r", "namespace": out}]}
    ),
    "NetworkPolicyArgs.gatewayNamespace": lambda out: router(
        networkPolicy={"gatewayNamespace": out}
    ),
    "SidecarArgs.image": paired,
}
#: Fields that only the plan reads, or that are not part of a service's objects.
NOWHERE = {"HttpRouteRefArgs.namespace"}
POD: dict[str, Callable[[Any], Any]] = {
    "a label": lambda out: service(role(template=template(metadata={"labels": {"a": out}}))),
    "a service account": lambda out: service(role(template=template(serviceAccountName=out))),
    "arguments of a container that is not read": lambda out: service(
        role(template=template(container(), {"name": "proxy", "image": "p", "args": [out]}))
    ),
    "arguments of an init container": lambda out: service(
        role(template=template(initContainers=[{"name": "i", "image": "p", "args": [out]}]))
    ),
    "a Secret's name": lambda out: service(
        role(template=template(volumes=[{"name": "s", "secret": {"secretName": out}}]))
    ),
    "a claim's name": lambda out: service(
        role(
            template=template(volumes=[{"name": "s", "persistentVolumeClaim": {"claimName": out}}])
        )
    ),
    "a volume's source": lambda out: service(
        role(template=template(volumes=[{"name": "s", "configMap": out}]))
    ),
    "a LocalQueue": lambda out: prefill_decode(
        schedulingStrategy={"queue": out, "gangPolicy": {"backend": "Kueue"}}
    ),
    "a pull secret": lambda out: service(role(template=template(imagePullSecrets=[{"name": out}]))),
}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def objects(manifest: Any) -> tuple[list[Finding], list[Any]]:
    plan = plan_service(InferenceServiceArgs.model_validate(manifest))
    return filter_errors(plan.findings), list(leaves(render(plan)))


def test_every_field_that_accepts_outputs_has_a_case() -> None:
    assert set(CASES) == {
        f"{name}.{field}"
        for name, schema in fields_schema(InferenceServiceArgs).items()
        for field, kept in schema.get("properties", {}).items()
        if marked(kept)
    }


@each_row("where", [*CASES, *POD])
def test_output_reaches_the_objects_unchanged(where: str, output: Any) -> None:
    later = output("known-later")
    rejected, kept = objects((CASES | POD)[where](later))
    assert rejected == []
    assert (later in kept) == (where not in NOWHERE)
    texts = [item for item in kept if isinstance(item, str)]
    assert not [text for text in texts if "Output" in text or "0x" in text]


@each_row("where", CASES)
def test_invalid_value_instead_of_output_is_rejected(where: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        InferenceServiceArgs.model_validate(CASES[where](["not", "text"]))
