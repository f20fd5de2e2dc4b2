"""Hypothesis strategies for KServe's documents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from importers.tests.kserve_samples import config, llm

Manifest = dict[str, Any]

#: Valid values of fields that do not accept every string or number.
VALID_VALUES = {
    "uri": ("hf://a/b", "hf://c/d"),
    "maxUnavailable": (1, 2),
    "maxSurge": (0, 1),
    "scheme": ("HTTPS", "HTTP"),
    "data": (2, 4),
    "dataLocal": (1, 2),
    "pipeline": (1, 2),
    "evictionPolicy": ("lru", "arc"),
}
SCALING = {
    "minReplicas": 1,
    "maxReplicas": 3,
    "keda": {
        "pollingInterval": 5,
        "triggers": [
            {"type": "cron", "metadata": {"start": "0"}},
            {
                "type": "prometheus",
                "name": "n",
                "metadata": {
                    "serverAddress": "http://p:1",
                    "query": "q",
                    "threshold": "5",
                    "activationThreshold": "1",
                },
            },
        ],
    },
}
OFFLOADINGS: tuple[Manifest, ...] = (
    {"cpu": "1Gi"},
    {"cpu": 1073741824, "evictionPolicy": "arc",
     "secondary": [{"fileSystem": {"emptyDir": {"size": 4096}}},
                   {"fileSystem": {"pvc": {"ref": {"name": "kv", "path": "p"}}}}]},
    {"cpu": "2Gi", "secondary": [{"fileSystem": {"pvc": {"spec": {"storageClassName": "fast"}}}}]},
)  # fmt: skip
#: What KServe makes for the service of these documents, and a Service of somebody else.
OWN_RULE: Manifest = {
    "backendRefs": [
        {"group": "inference.networking.k8s.io", "kind": "InferencePool",
         "name": "llm-inference-pool", "port": 8000, "weight": 9},
        {"name": "guard", "port": 80},
    ],
    "filters": [{"type": "RequestMirror",
                 "requestMirror": {"backendRef": {"name": "llm-kserve-workload-svc"}}}],
}  # fmt: skip
_counts = st.integers(1, 3)
_words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


def _some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional=fields)


def pods() -> st.SearchStrategy[Manifest]:
    variables = st.lists(
        st.sampled_from(
            (
                {"name": "A", "value": "b"},
                {"name": "VLLM_ADDITIONAL_ARGS", "value": "--a 1"},
                {"name": "KSERVE_INFER_ROCE", "value": "true"},
            )
        ),
        unique_by=lambda value: value["name"],
    )
    main = st.fixed_dictionaries(
        {"name": st.just("main")},
        optional={
            "image": _words,
            "args": st.lists(_words, max_size=2),
            "env": variables,
            "livenessProbe": st.sampled_from(
                ({"httpGet": {"port": 8000, "scheme": "HTTPS"}}, {"periodSeconds": 5}, {})
            ),
            "securityContext": st.sampled_from(({"runAsNonRoot": False}, {})),
            "volumeMounts": st.sampled_from(
                (
                    [],
                    [{"name": "mine", "mountPath": "/models"}, {"name": "dshm", "mountPath": "/x"}],
                )
            ),
        },
    )
    initializer = {
        "name": "storage-initializer",
        "args": ["x"],
        "resources": {"limits": {"memory": "1Gi"}},
        "terminationMessagePath": "/x",
    }
    return st.fixed_dictionaries(
        {"containers": main.map(lambda item: [item])},
        optional={
            "nodeSelector": st.just({"pool": "a"}),
            "hostNetwork": st.booleans(),
            "initContainers": st.just([initializer]),
            "volumes": st.sampled_from(
                (
                    [],
                    [{"name": "dshm", "emptyDir": {"sizeLimit": "2Gi"}}],
                    [{"name": "home", "hostPath": {"path": "/h"}}, {"name": "mine"}],
                )
            ),
        },
    )


def workloads() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "replicas": _counts,
        "parallelism": st.sampled_from(
            ({"tensor": 2}, {"data": 2, "dataLocal": 1}, {"pipeline": 2, "expert": True})
        ),
        "labels": st.just({"app": "x"}),
        "annotations": st.just({"note": "y"}),
        "template": pods(),
        "worker": pods(),
        "scaling": st.sampled_from((SCALING, {"maxReplicas": 3})),
        "kvCacheOffloading": st.sampled_from(OFFLOADINGS),
        "rolloutStrategy": _some({"maxUnavailable": _counts, "maxSurge": st.integers(0, 1)}),
    }


def routers() -> st.SearchStrategy[Manifest]:
    scheduler = _some(
        {
            "replicas": _counts,
            "labels": st.just({"a": "b"}),
            "template": st.just(
                {"hostNetwork": True, "containers": [{"name": "main", "image": "i", "args": ["x"]}]}
            ),
            "config": _some({"inline": st.just({"plugins": []}), "ref": st.just({"name": "c"})}),
            "tokenizer": st.just({}),
            "pool": st.just({"ref": {"name": "p"}}),
        }
    )
    route = _some(
        {
            "http": _some(
                {
                    "refs": st.just([{"name": "r"}]),
                    "spec": st.sampled_from(({"hostnames": ["h"]}, {"rules": [OWN_RULE]})),
                }
            ),
            "group": _words,
            "weight": _counts,
        }
    )
    gateway = _some({"refs": st.just([{"name": "g", "namespace": "n", "sectionName": "s"}])})
    return _some({"route": route, "gateway": gateway, "scheduler": scheduler})


@st.composite
def llm_services(draw: st.DrawFn) -> list[Manifest]:
    """An LLMInferenceService that KServe's CRD accepts, and configs that it may be based on."""
    fields = {
        **workloads(),
        "prefill": _some(workloads()),
        "router": routers(),
        "tracing": _some(
            {
                "exporterEndpoint": st.just("http://otel:4317"),
                "exporter": st.sampled_from(("otlp", "none")),
                "sampler": st.sampled_from(("parentbased_traceidratio", "always_on")),
                "samplerArg": st.just("0.5"),
            }
        ),
        "storageInitializer": _some({"enabled": st.booleans()}),
    }
    lora = _some(
        {
            "adapters": st.just([{"name": "l", "uri": "hf://c/d"}]),
            "maxRank": _counts,
            "maxAdapters": _counts,
        }
    )
    model = draw(
        st.fixed_dictionaries(
            {"uri": st.just("hf://a/b")},
            optional={"name": _words, "lora": lora, "confidential": st.just({"enabled": True})},
        )
    )
    metadata = draw(
        _some(
            {
                "namespace": _words,
                "labels": st.just({"team": "a"}),
                "annotations": st.sampled_from(
                    (
                        {"serving.kserve.io/exp-dra-device-count": "1"},
                        {"serving.kserve.io/stop": "true"},
                        {"note": "x"},
                    )
                ),
                "uid": _words,
            }
        )
    )
    service = llm(metadata=metadata, model=model, **{"template": None, **draw(_some(fields))})
    if draw(st.booleans()):
        service["spec"]["baseRefs"] = [{"name": "base"}]
    below = config("base", **draw(_some(fields)))
    if "namespace" in metadata:
        below["metadata"]["namespace"] = metadata["namespace"]
    return draw(st.sampled_from(([service], [below, service])))
