"""The API server, with LeaderWorkerSet's webhooks, accepts every object unchanged.

Each row of CLAIMS renders objects into a namespace. They are sent as dry runs, except
ServiceAccounts, without which the server rejects pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from e2e import checks, inputs
from e2e.disaggregated import disaggregated
from e2e.harness import Cluster, Object
from e2e.routers import FOREIGN_KINDS, HOST, PARENT, objects_of, routed
from e2e.test_autoscaling import METRIC
from e2e.test_autoscaling import manifest as autoscaled
from e2e.test_day_two import MANIFESTS, everything
from e2e.test_modelplane import FORMS as MODELPLANE
from e2e.test_modelplane import objects_of as modelplane_objects
from fusioninfer_pulumi import loads, plan_service, render
from importers.tests import kthena_samples as samples
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited
from importers.tests.modelplane_samples import cache, model_service
from tests.strategies import Manifest, services

Build = Callable[[str], list[Object]]
"""Returns objects in a namespace."""
RANDOM, RANDOM_LONG = 40, 200


def ours(manifest: Path | Mapping[str, Any]) -> Build:
    return lambda namespace: inputs.with_namespace(
        inputs.objects_of(inputs.plan_of(manifest)), namespace
    )


def operations(manifest: Object) -> Build:
    def build(namespace: str) -> list[Object]:
        metadata = {**manifest["metadata"], "namespace": namespace}
        return inputs.objects_of(inputs.plan_of({**manifest, "metadata": metadata}))

    return build


def imported(*documents: Object) -> Build:
    def build(namespace: str) -> list[Object]:
        found = loads(inputs.text(*documents), allow_lossy=True)
        objects = [each for args in found for each in render(plan_service(args))]
        return inputs.with_namespace(objects, namespace)

    return build


def example(name: str) -> Build:
    return lambda namespace: inputs.with_namespace(inputs.example_objects(name), namespace)


def behind_router(router: Mapping[str, Any]) -> Build:
    return lambda namespace: objects_of(routed(namespace, **router))


def prefill_decode(fields: Mapping[str, Any]) -> Build:
    return lambda namespace: objects_of(disaggregated(namespace, **fields))


def modelplane(deployment: Object) -> Build:
    documents = (deployment, cache(authSecret={"name": "hub"}, revision="v1"), model_service())
    return lambda namespace: inputs.with_namespace(modelplane_objects(*documents), namespace)


# Kthena
PROMETHEUS = {"serverURL": "http://prometheus:9090", "query": "sum(rate(requests[2m]))"}
PACE = {
    "scaleUp": {"stablePolicy": {"instances": 2, "period": "30s", "selectPolicy": "And"}},
    "scaleDown": {"instances": 0, "percent": 0, "stabilizationWindow": "10m"},
}
SCALED = {
    "prefill": {"minReplicas": 1, "maxReplicas": 3},
    "decode": {"minReplicas": 2, "maxReplicas": 6},
}
QUERIED = {
    name: {**bounds, "metricSources": {"waiting": {"prometheus": PROMETHEUS}}}
    for name, bounds in SCALED.items()
}
KTHENA_PAIR = samples.serving(
    samples.role("prefill", replicas=1), samples.role("decode", replicas=2)
)


def kthena_policy(roles: Object) -> Object:
    return samples.policy(disaggregatedTarget=samples.scaled(roles), behavior=PACE)


WEIGHTED = (
    samples.serving(),
    samples.serving(name="next"),
    samples.server(),
    samples.server("new", {"modelserving.volcano.sh/name": "next"}),
    samples.route(
        samples.rule(
            {"modelServerName": "srv", "weight": 90}, {"modelServerName": "new", "weight": 10}
        ),
        parentRefs=[{"name": "gateway"}],
    ),
)

HF = "hf://Qwen/Qwen3-8B"
WARM = {"storage": {"size": "1Gi", "storageClassName": "fast"}, "warmUp": True}
ADAPTERS = {"adapters": [{"name": "a", "uri": "hf://x/y"}, {"name": "b", "uri": "s3://b/c"},
                         {"name": "c", "uri": "pvc://more/c"}]}  # fmt: skip
BUCKET = {"secretName": "keys", "endpoint": "http://minio:9000"}
MODELS: dict[str, Object] = {
    "hub": {"uri": f"{HF}@main", "tokenSecret": {"name": "hub"}, "lora": ADAPTERS},
    "hub by a container": {"uri": HF, "fetch": "InitContainer"},
    "claim": {"uri": "pvc://models/llama"},
    "bucket": {"uri": "s3://bucket/key", "s3": BUCKET, "imagePullSecrets": ["pull"]},
    "image": {"uri": "oci://registry.example.com/model:1", "path": "models"},
    "cache": {"uri": HF, "cache": {"claimName": "shared"}},
    "model of a cache": {
        "uri": HF,
        "cache": {**WARM, "mountModel": True, "readOnly": False},
        "lora": ADAPTERS,
    },
    "warm cache": {"uri": "s3://bucket/key", "s3": BUCKET, "cache": WARM, "lora": ADAPTERS},
}
MODEL_FORMS: dict[str, Object] = {
    "one pod": {},
    "copies over pods": {"parallelism": {"tensor": 2, "data": 4, "dataLocal": 2}},
    "stages over pods": {"parallelism": {"tensor": 4, "pipeline": 2}},
}


def vllm(release: str, limits: Object, *args: str, **more: Any) -> Object:
    container: Object = {"name": "vllm", "image": f"vllm/vllm-openai:v{release}"}
    container |= {"resources": {"limits": limits}, **({"args": list(args)} if args else {})}
    template = {"spec": {"containers": [container]}}
    return {"name": "serve", "componentType": "worker", "template": template, **more}


def with_model(model: Object, fields: Object) -> Object:
    made = inputs.service("svc", vllm("0.12.0", {"nvidia.com/gpu": 4}, **fields))
    made["spec"]["model"] = model
    return made


def offloading(**more: Any) -> Object:
    return vllm("0.22.0", {"nvidia.com/gpu": 4, "memory": "128Gi"}, "--model", "m", **more)


CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
         "resources": {"requests": {"storage": "10Gi"}}}  # fmt: skip
TIERS = [
    {"fileSystem": {"emptyDir": {"size": "200Gi"}}},
    {"fileSystem": {"pvc": {"spec": CLAIM}}},
    {"fileSystem": {"pvc": {"ref": {"name": "shared", "path": "kv"}}}},
]
OFFLOADING: dict[str, Object] = {
    "host memory": {"kvCacheOffloading": {"cpu": "64Gi"}},
    "every tier": {
        "kvCacheOffloading": {"cpu": "64Gi", "evictionPolicy": "arc", "secondary": TIERS}
    },
    "several nodes": {
        "kvCacheOffloading": {"cpu": "16Gi", "secondary": TIERS},
        "parallelism": {"tensor": 2, "data": 4, "dataLocal": 2},
    },
}


def sglang() -> Object:
    container = {"name": "sglang", "image": "lmsysorg/sglang:v0.5.3",
                 "command": ["python3", "-m", "sglang.launch_server", "--model-path", "m"],
                 "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "128Gi"}}}  # fmt: skip
    given = {"cpu": "64Gi", "secondary": TIERS[:1]}
    return offloading(template={"spec": {"containers": [container]}}, kvCacheOffloading=given)


def pair() -> list[Object]:
    both: Object = {"kvTransfer": {}, **OFFLOADING["every tier"], "parallelism": {"tensor": 4}}
    kinds = (("prefill", "prefiller"), ("decode", "decoder"))
    return [offloading(name=name, componentType=kind, **both) for name, kind in kinds]


TLS_GATEWAY = {
    "implementation": "agentgateway",
    "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
    "listeners": [
        {
            "name": "https",
            "port": 443,
            "protocol": "HTTPS",
            "hostname": "*.example.com",
            "tls": {"certificateRefs": [{"name": "wildcard", "namespace": "certificates"}]},
        }
    ],
    "infrastructure": {"labels": {"team": "a"}},
    "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
}
RULES = [
    {"matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}]},
    {"matches": [{"path": {"type": "Exact", "value": "/old"}}],
     "filters": [{"type": "RequestRedirect", "requestRedirect": {"statusCode": 301}}]},
    {"name": "mixed", "backendRefs": [{"name": "svc-pool", "port": 8000, "weight": 9},
                     {"name": "fallback", "namespace": "other", "port": 80, "weight": 1}],
     "timeouts": {"request": "90s"}},
]  # fmt: skip

ROUTERS: dict[str, dict[str, Any]] = {
    "route only": {"httproute": PARENT},
    "no route": {},
    "default gateway": {"gateway": {}},
    "referenced gateway": {
        "httproute": HOST,
        "gateway": {"refs": [{"name": "g", "namespace": "infra", "sectionName": "https"}]},
    },
    "managed gateway with TLS": {
        "httproute": HOST,
        "gateway": TLS_GATEWAY,
        "referenceGrants": True,
    },
    "rules": {"httproute": {**PARENT, "rules": RULES}, "referenceGrants": True},
    "shares": {"httproute": {**PARENT, "split": [{"service": "canary", "weight": 10}]}},
    "routed by another service": {
        "httproute": {"routedBy": "stable"},
        "gateway": {"implementation": "istio", "refs": [{"name": "shared"}]},
    },
    "several replicas": {"endpointPicker": {"replicas": 3, "failureMode": "FailClose"}},
    "authenticated metrics": {"endpointPicker": {"metrics": "Authenticated"}},
    "unauthenticated metrics": {"endpointPicker": {"metrics": "Unauthenticated"}},
    "certificate": {"endpointPicker": {"tls": {"secretName": "picker-tls"}}},
    "template": {
        "endpointPicker": {
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}},
            "args": ["--health-checking=true"],
            "template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeSelector": {"pool": "system"},
                    "containers": [{"name": "epp", "env": [{"name": "GOGC", "value": "50"}]}],
                },
            },
        }
    },
    "network policies": {
        "endpointPicker": {"metrics": "Unauthenticated"},
        "networkPolicy": {
            "gateway": [{"namespaceSelector": {"matchLabels": {"name": "infra"}}}],
            "metrics": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        },
    },
    "routes made elsewhere": {
        "httproute": {"refs": [{"name": "chat", "namespace": "other"}, {"name": "batch"}]},
        "referenceGrants": True,
    },
    "istio": {"httproute": PARENT, "gateway": {"implementation": "istio"}},
    "Service": {
        "endpointPicker": {"enabled": False},
        "httproute": {**HOST, "rules": RULES[:2]},
        "gateway": TLS_GATEWAY,
        "networkPolicy": {"gatewayNamespace": "infra"},
        "referenceGrants": True,
    },
    "Service routed elsewhere": {
        "endpointPicker": {"enabled": False},
        "httproute": {"refs": [{"name": "chat", "namespace": "other"}]},
        "referenceGrants": True,
    },
    "Service on gke": {
        "endpointPicker": {"enabled": False},
        "httproute": HOST,
        "gateway": {"implementation": "gke"},
    },
    "gke": {"httproute": HOST, "gateway": {"implementation": "gke"}},
}
UNPROTECTED = {"kvTransfer": {"sidecar": {"ssrfProtection": False}}}

PREFILL_DECODE: dict[str, dict[str, Any]] = {
    "single nodes": {},
    "several nodes": {"prefill": {"multinode": {"nodeCount": 2}},
                      "decode": {"multinode": {"nodeCount": 4}}},
    "unprotected": {"decode": UNPROTECTED},
    "events": {"prefill": {"kvEvents": {}}, "decode": {"kvEvents": {}}},
    "ports, probes and memory of one's own": {
        "container": {
            "ports": [{"name": "http", "containerPort": 8000}],
            "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}},
            "volumeMounts": [{"name": "memory", "mountPath": "/dev/shm"}],
        },
        "pod": {"volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]},
    },
    "older picker": {
        "endpointPicker": {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
    },
}  # fmt: skip

SERVER_METRICS = {**METRIC, "source": "External", "selector": {"a": "b"}}
SLOW_DOWN = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}}
CLAIMED_DEVICES: list[Any] = [
    {"name": "gpus", "deviceClassName": "gpu.example.com", "count": 8,
     "selectors": ["device.attributes['x.example.com'].model == 'a'"]},
    {"name": "all", "spec": {"devices": {"requests": [
        {"name": "x", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]}}},
    {"name": "shared", "claimName": "existing"},
]  # fmt: skip
CLAIMS: dict[str, dict[str, Build]] = {
    "Every manifest of the FusionInfer documents is accepted unchanged": {
        name: ours(path) for name, path in inputs.DOCUMENTS.items()
    },
    "Objects of every example program are accepted unchanged": {
        name: example(name) for name in inputs.EXAMPLES
    },
    "HPA and KEDA objects are accepted unchanged": {
        "HPA": ours(autoscaled(1, {
            "maxReplicas": 4, "metrics": [METRIC, SERVER_METRICS], **SLOW_DOWN})),
        "KEDA": ours(autoscaled(1, {
            "engine": "KEDA", "minReplicas": 0, "maxReplicas": 4, "prometheus": "http://p:9090",
            "metrics": [{"query": "sum(up)", "target": "5"}], **SLOW_DOWN})),
    },
    "Budgets, monitors, autoscalers, probes, spread and traces are accepted unchanged": {
        f"operations {number}": operations(manifest)
        for number, manifest in enumerate([*MANIFESTS, everything()])
    },
    "Kthena's and Modelplane's documented manifests are accepted unchanged": {
        name: imported(document) for name, document in DOCUMENTS.items()
    },
    "KServe's documented manifests are accepted unchanged": {
        name: imported(document)
        for name, document in {**acceptable(), "edited presets": edited()}.items()
    },
    "Kthena's autoscaled services are accepted unchanged": {
        "pods": imported(KTHENA_PAIR, kthena_policy(SCALED)),
        "queries": imported(KTHENA_PAIR, kthena_policy(QUERIED)),
        "tolerance": imported(samples.serving(), samples.policy(tolerancePercent=5)),
    },
    "Services of a weighted Kthena ModelRoute are accepted unchanged": {
        "weights": imported(*WEIGHTED),
    },
    "Modelplane deployments with cache and ModelService are accepted unchanged": {
        name: modelplane(deployment) for name, deployment in MODELPLANE.items()
    },
    "Every model source, cache and parallelism is accepted unchanged": {
        f"{name}, {form}": ours(with_model(model, fields))
        for name, model in MODELS.items()
        for form, fields in MODEL_FORMS.items()
    },
    "ResourceClaimTemplates and pods that reference them are accepted unchanged": {
        claim["name"]: ours(
            inputs.service("svc", vllm("0.12.0", {"cpu": "1"}, resourceClaims=[claim]))
        )
        for claim in CLAIMED_DEVICES
    },
    "kvCacheOffloading to memory, emptyDirs and claims is accepted unchanged": {
        **{
            name: ours(inputs.service("svc", offloading(**form)))
            for name, form in OFFLOADING.items()
        },
        "with NIXL": ours(inputs.service("svc", *pair())),
        "SGLang": ours(inputs.service("svc", sglang())),
    },
    "Prefill/decode objects are accepted unchanged": {
        **{name: prefill_decode(fields) for name, fields in PREFILL_DECODE.items()},
        "multinode": ours(inputs.ROOT / "tests" / "pods" / "multinode.yaml"),
    },
    "Objects of every router option are accepted unchanged": {
        name: behind_router(router) for name, router in ROUTERS.items()
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    """Return a namespace; a PriorityClass and namespaces that some objects name exist, too."""
    name = cluster.new_namespace()
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
    cluster.apply([{**priority, "metadata": {"name": "high"}}])
    for other in ("other", "certificates"):
        cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}])
    yield name
    cluster.delete("PriorityClass", "high")
    for each in ("other", "certificates"):
        cluster.delete("v1/Namespace", each)
    cluster.delete_namespace(name)


def pods_of(leader_worker_set: Object) -> Iterator[Object]:
    """Yield the pods of both templates, which the server validates far less than pods."""
    group = leader_worker_set["spec"]["leaderWorkerTemplate"]
    for key in ("leaderTemplate", "workerTemplate"):
        if key in group:
            metadata = {**group[key]["metadata"], "name": leader_worker_set["metadata"]["name"]}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                   "spec": group[key]["spec"]}  # fmt: skip


def assert_accepted(cluster: Cluster, objects: list[Object], namespace: str) -> None:
    for sent in objects:
        if sent["kind"] in FOREIGN_KINDS:
            continue
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)
        if sent["kind"] == "ServiceAccount":
            cluster.apply([sent])
        if sent["kind"] == "LeaderWorkerSet":
            for pod in pods_of(sent):
                cluster.create(pod, namespace=namespace, dry_run=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name, marks=pytest.mark.proves(claim))
        for claim, builds in CLAIMS.items()
        for name, build in builds.items()
    ],
)
def test_objects_are_accepted_unchanged(cluster: Cluster, room: str, build: Build) -> None:
    assert_accepted(cluster, build(room), room)


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(count, marks=[*marks, pytest.mark.proves(
            f"{count} random valid services are accepted unchanged")])
        for count, marks in ((RANDOM, []), (RANDOM_LONG, [pytest.mark.long]))
    ],
)  # fmt: skip
def test_random_services_are_accepted_unchanged(cluster: Cluster, room: str, examples: int) -> None:
    @settings(derandomize=True, database=None, deadline=None, max_examples=examples,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(manifest=services(extras=True))
    def accepted(manifest: Manifest) -> None:
        assert_accepted(cluster, ours(manifest)(room), room)

    accepted()


@pytest.mark.proves("Applying the same objects again changes nothing")
def test_applying_twice_changes_nothing(cluster: Cluster, namespace: str) -> None:
    objects = ours(inputs.DOCUMENTS["fusioninfer-story-4-disaggregated-multinode"])(namespace)

    def apply() -> list[tuple[str, int]]:
        stored = cluster.apply(objects)
        for sent, kept in zip(objects, stored, strict=True):
            checks.stored_is_what_was_sent(sent, kept)
        # Volcano writes a PodGroup's status as part of the object, which counts as a generation.
        lws = [kept for kept in stored if kept["kind"] != "PodGroup"]
        return [(k["metadata"]["name"], k["metadata"].get("generation", 0)) for k in lws]

    assert apply() == apply()
