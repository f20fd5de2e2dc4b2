"""Modelplane's ModelCache and cluster selectors."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.modelplane_samples import (
    Manifest,
    cache,
    cached,
    deployment,
    engine,
    member,
    paired,
    proposed,
    released,
    template,
    workers,
)
from importers.tests.reads import check, convert, read_source, reject, to_spec

HERE = "template.spec.modelCacheRef"


def objects(kind: str, *documents: Manifest) -> list[Manifest]:
    (plan,) = read_source(*documents).plans
    return [item for item in render(plan) if item["kind"] == kind]


def pod(*documents: Manifest) -> Manifest:
    (item,) = objects("LeaderWorkerSet", *documents)
    spec: Manifest = item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    return spec


def test_cache_becomes_the_model() -> None:
    token = {"name": "hub", "key": "token"}
    result = to_spec(
        cached("--model=/mnt/models", "--served-model-name=m"),
        cache(revision="v1", authSecret=token),
    )
    assert result["model"] == {
        "uri": "hf://org/model@v1",
        "tokenSecret": token,
        "mountPath": "/mnt/models",
        "cache": {
            "storage": {"size": "40Gi"}, "warmUp": True, "mountModel": True, "readOnly": False,
        },
    }  # fmt: skip
    assert to_spec(cached("--served-model-name=m"), cache(authSecret={"name": "hub"}))["model"][
        "tokenSecret"
    ] == {"name": "hub", "key": "HF_TOKEN"}


ARGUMENTS: list[tuple[Manifest, Manifest]] = [
    # Command and arguments in the source manifest, and in the rendered pod.
    (cached("--model=/mnt/models", "--served-model-name=m"), {}),
    (cached("--model=/mnt/models/a.gguf", "--served-model-name=m"), {}),
    (cached("--served-model-name=m", command=["vllm", "serve", "/mnt/models"]), {}),
    (
        cached("--served-model-name=m"),
        {"args": ["--served-model-name=m", "--model", "/mnt/models"]},
    ),
    (cached(command=["sh", "-c", "exec vllm serve /mnt/models --served-model-name m"]), {}),
    (
        cached("--enforce-eager", command=["vllm", "serve", "/mnt/models"]),
        {"args": ["--enforce-eager", "--served-model-name", "/mnt/models"]},
    ),
]


@each_row(("document", "changed"), ARGUMENTS)
def test_engine_arguments_use_the_mount_path(document: Manifest, changed: Manifest) -> None:
    value = document["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"]
    (container,) = pod(document, cache())["containers"]
    for key in ("command", "args"):
        before = value["spec"]["containers"][0].get(key)
        assert (container.get(key) or None) == changed.get(key, before or None)
    _, mount = container["volumeMounts"]
    (job,) = objects("Job", document, cache())
    directory = job["spec"]["template"]["spec"]["containers"][0]["args"][1]
    assert mount["mountPath"] == "/mnt/models"
    assert directory == f"/mnt/model-cache/{mount['subPath']}"
    assert "readOnly" not in mount


def test_every_pod_mounts_the_cache() -> None:
    args = ["--model=/mnt/models", "--served-model-name=m"]
    user_template = template()
    user_template["spec"]["containers"][0]["args"] = args
    gang = engine(
        "gang", member("Leader", template=user_template), member("Worker", template=user_template)
    )
    document = released(
        gang, engine("a", member(template=user_template)), modelCacheRef={"name": "cache"}
    )
    for item in objects("LeaderWorkerSet", document, cache()):
        templates = item["spec"]["leaderWorkerTemplate"]
        for key in {"leaderTemplate", "workerTemplate"} & set(templates):
            (container,) = templates[key]["spec"]["containers"]
            assert container["volumeMounts"][-1]["mountPath"] == "/mnt/models"


def test_all_deployment_versions_may_refer_to_a_cache() -> None:
    user_template = template()
    user_template["spec"]["containers"][0]["args"] = ["--served-model-name=m"]
    reference = {"modelCacheRef": {"name": "cache"}}
    shapes = [
        proposed(workers=workers(template=user_template), prefill=None, routing=None, **reference),
        deployment(
            {"replicas": 1, "engines": [engine("e", member(template=user_template))], **reference}
        ),
        cached("--served-model-name=m"),
    ]
    models = [to_spec(shape, cache())["model"] for shape in shapes]
    assert models == [models[0]] * 3


def test_model_without_served_name_uses_its_path() -> None:
    document = cached("--model=/mnt/models/a.gguf")
    assert to_spec(document, cache())["model"]["name"] == "/mnt/models/a.gguf"
    assert (
        f"f: info: {HERE}: no engine sets a served model name; requests use /mnt/models/a.gguf"
        in check(document, cache())
    )


def test_large_model_gets_longer_timeout() -> None:
    document = cached("--served-model-name=m")
    assert "job" not in to_spec(document, cache(sizeGiB=200))["model"]["cache"]
    assert to_spec(document, cache(sizeGiB=1100))["model"]["cache"]["job"] == {"timeout": "11h"}


REJECTED: list[tuple[list[Manifest], str]] = [
    (
        [cached()],
        (f"f: {HERE}: cannot be carried over: ModelCache cache of namespace default is not in "
         "this input; add it as a document, or set the service's model"),
    ),
    (
        [{**cached(), "metadata": {"name": "md", "namespace": "a"}}],
        (f"f: {HERE}: cannot be carried over: ModelCache cache of namespace a is not in this "
         "input; add it as a document, or set the service's model"),
    ),
    (
        [released(), cache()],
        ("f#2: spec: cannot be carried over: no ModelDeployment of this input refers to it; pass "
         "both together, or remove it"),
    ),
    (
        [cached("--model=other/model"), cache()],
        ("f: template.spec.engines[0].members[0].template.spec.containers[0].args: conflicts "
         "with modelCacheRef, which mounts the model at /mnt/models; use --model=/mnt/models"),
    ),
    (
        [cached(), {**cache(), "spec": {"source": "HuggingFace"}}],
        "f#2: huggingFace: is required when source is HuggingFace",
    ),
    ([cached(), cache(sizeGiB=0)], "f#2: huggingFace.sizeGiB: must be at least 1, got 0"),
    (
        [cached("--served-model-name=m"), cache(repo="a b")],
        ("f#2: huggingFace.repo: must be hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], "
        's3://BUCKET/KEY or oci://IMAGE, got "hf://a b"'),
    ),
    (
        [cached(clusterSelector={"matchLabels": {"zone": "a"}}), cache(clusters={"zone": "b"})],
        ("f#2: clusterSelector.matchLabels.zone: zone=b conflicts with zone=a; no cluster "
         "has both"),
    ),
    (
        [cached("--served-model-name=m"), {**cache(), "metadata": {"name": "cache",
                                                                   "labels": {"a": "b"}}}],
        ("f#2: metadata.labels.a: cannot be carried over: is not supported here; set it on the "
         "service"),
    ),
]  # fmt: skip


@each_row(("documents", "expected"), REJECTED)
def test_invalid_values_are_rejected(documents: list[Manifest], expected: str) -> None:
    assert reject(*documents) == [expected]


def test_several_deployments_may_share_a_cache() -> None:
    one, two = cached("--served-model-name=m"), cached("--served-model-name=m")
    two["metadata"] = {"name": "two"}
    assert len(convert(one, two, cache())) == 2
    assert (
        "f#3: info: huggingFace.sizeGiB: each of the 2 services gets its own volume and copy"
    ) in check(one, two, cache())


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            [proposed(clusterSelector={"matchLabels": {"a": "b"}})],
            {"fusioninfer.io/cluster-selector": "a=b"},
        ),
        (
            [
                cached("--enforce-eager", clusterSelector={"matchLabels": {"b": "1"}}),
                cache(clusters={"a": "2", "b": "1"}),
            ],
            {"fusioninfer.io/cluster-selector": "a=2,b=1"},
        ),
        (
            [released(tolerations=[{"key": "k", "operator": "Exists"}])],
            {"fusioninfer.io/cluster-tolerations": '[{"key": "k", "operator": "Exists"}]'},
        ),
    ],
)
def test_cluster_selector_becomes_an_annotation(documents: list[Manifest], expected: Any) -> None:
    (manifest,) = convert(*documents)
    assert manifest["metadata"]["annotations"] == expected
    (plan, *_) = read_source(*documents).plans
    assert all(expected.items() <= item["metadata"]["annotations"].items() for item in render(plan))


def test_cluster_selector_is_reported() -> None:
    chosen = paired(clusterSelector={"matchLabels": {"a": "b"}}, tolerations=[{"key": "k"}])
    result = [message for message in check(chosen) if "cluster" in message]
    assert result == [
        (
            "f: info: template.spec.clusterSelector: becomes an annotation; the Pulumi provider or "
            "the kubectl context must point to one of these clusters"
        ),
        (
            "f: info: template.spec.tolerations: becomes an annotation, because it concerns "
            "clusters; set tolerations for nodes in the pod templates"
        ),
    ]
