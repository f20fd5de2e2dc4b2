"""What of a service's `model` contradicts its pods, or is worth a warning."""

from __future__ import annotations

from typing import Any

import pytest
from pods.models import main, serving

from tests.samples import (
    problems,
    warnings,
)

HF = "hf://Qwen/Qwen3-8B"
TOKEN = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
}
ARGS = "roles[0].template.spec.containers[0].args"


MOUNTED = {"volumeMounts": [{"name": "x", "mountPath": "/mnt/models/"}]}
REFUSED: list[tuple[Any, list[str]]] = [
    (
        serving({"uri": HF}, args=["--model", "other/model"]),
        [f"{ARGS}: the model other/model conflicts with model.uri (Qwen/Qwen3-8B); remove one"],
    ),
    (
        serving({"uri": "pvc://m", "name": "q"}, args=["--served-model-name=p"]),
        [f"{ARGS}: --served-model-name p conflicts with model.name (q); remove one"],
    ),
    (
        serving({"uri": f"{HF}@a"}, args=["--revision", "b"]),
        [f"{ARGS}: --revision b conflicts with model.uri (a); remove one"],
    ),
    (
        serving({"uri": HF, "lora": {"adapters": [{"name": "a", "uri": HF}]}},
                args=["--lora-modules", "a=b"]),
        [f"{ARGS}: --lora-modules conflicts with model.lora; move its adapters there"],
    ),
    (
        serving({"uri": "pvc://m"}, **MOUNTED),
        [("roles[0].template.spec.containers[0].volumeMounts: /mnt/models conflicts with the "
         "mount of the model's files; remove it, or set model.mountPath (cache.mountPath for a "
         "cache)"),
         ('roles[0].template.spec.containers[0].volumeMounts[0].name: the pod has no volume "x": '
         "add it to its volumes")],
    ),
    (
        serving({"uri": HF, "tokenSecret": {"name": "h"}}, env=[TOKEN]),
        [("roles[0].template.spec.containers[0].env[0]: HF_TOKEN conflicts with the service's "
         "model; remove one of them")],
    ),
    (
        serving({"uri": "pvc://m", "path": "x"}),
        ["model.path: belongs to oci:// (this model is pvc://)"],
    ),
    (
        serving({"uri": "pvc://m", "fetch": "Engine"}),
        ["model.fetch: belongs to hf:// (this model is pvc://)"],
    ),
    (
        serving({"uri": "pvc://m", "tokenSecret": {"name": "h"}, "s3": {"region": "x"}}),
        ["model.tokenSecret: belongs to hf:// (this model is pvc://)",
         "model.s3: belongs to s3:// (this model is pvc://)"],
    ),
    (
        serving({"uri": HF, "size": "big"}),
        ['model.size: must be an amount of bytes such as 80Gi, got "big"'],
    ),
    (
        serving({"uri": HF, "name": "a", "lora": {"adapters": [
            {"name": "a", "uri": "hf://x/y"}, {"name": "b=c", "uri": "x"}]}}),
        ['model.lora.adapters[1].name: must be a name without =, got "b=c"',
         ("model.lora.adapters[1].uri: must be hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], "
         's3://BUCKET/KEY or oci://IMAGE, got "x"')],
    ),
    (
        serving({"uri": HF, "fetcher": {"image": "", "env": [{"value": "x"}]}}),
        ['model.fetcher.image: must be an image reference, got ""',
         "model.fetcher.env[0].name: is required: a string"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "expected"), REFUSED)
def test_contradicting_model_is_rejected(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


def test_unknown_program_keeps_its_command() -> None:
    manifest = serving({"uri": "pvc://m"}, image="x", command=["/serve"])
    (one,) = warnings(manifest)
    assert one.startswith("warning: roles[0].template.spec.containers[0].command: the model is")
    assert main(manifest)["command"] == ["/serve"]
    assert main(manifest)["volumeMounts"]


def test_literal_credential_is_warned_of_where_it_was_written() -> None:
    env = [{"name": "HF_TOKEN", "value": "hf_" + "a" * 30}]
    found = warnings(serving({"uri": "s3://b/k", "fetcher": {"env": env}}))
    assert [each.partition(": ")[2][:35] for each in found] == [
        "model.fetcher.env[0].value: HF_TOKE"
    ]
