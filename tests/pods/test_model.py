"""The service's `model`: its files in each pod, and the engine's arguments."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from pods.models import main, pod, serving
from rows import each_row

from fusioninfer_pulumi.api.model import ModelSource, parse_model_uri
from fusioninfer_pulumi.engines.command_flags import get_flag_value
from fusioninfer_pulumi.engines.engine_commands import parse_command
from tests.samples import nodes, pod_templates, problems

HF = "hf://Qwen/Qwen3-8B"
SGLANG = {"image": "lmsysorg/sglang:v0.5.3"}


SOURCES: list[tuple[str, ModelSource | None]] = [
    (HF, ModelSource("hf", "Qwen/Qwen3-8B")),
    (f"{HF}@main", ModelSource("hf", "Qwen/Qwen3-8B", revision="main")),
    (f"{HF}:9c925d6", ModelSource("hf", "Qwen/Qwen3-8B", revision="9c925d6")),
    ("pvc://models", ModelSource("pvc", "models")),
    ("pvc://models/llama/8b/", ModelSource("pvc", "models", "llama/8b")),
    ("s3://bucket/a/b", ModelSource("s3", "bucket/a/b")),
    ("oci://r.example.com:5000/m:1", ModelSource("oci", "r.example.com:5000/m:1")),
    ("hf://gpt2", ModelSource("hf", "gpt2")),
    ("hf://a/b/c", None),
    ("pvc://UP", None),
    ("pvc://models/../x", None),
    ("s3://bucket", None),
    ("oci://", None),
    ("gs://bucket/x", None),
    ("Qwen/Qwen3-8B", None),
    ("hf://a/b c", None),
]


@each_row(("uri", "source"), SOURCES)
def test_model_uri_is_parsed(uri: str, source: ModelSource | None) -> None:
    assert parse_model_uri(uri) == source
    rejected = [
        (
            "model.uri: must be hf://ORG/NAME[@REVISION], pvc://CLAIM[/PATH], s3://BUCKET/KEY or "
            f'oci://IMAGE, got "{uri}"'
        )
    ]
    assert problems(serving({"uri": uri})) == ([] if source else rejected)


def test_init_container_fetches_from_a_bucket() -> None:
    value = {"uri": "s3://b/k", "s3": {"secretName": "keys", "endpoint": "http://minio:9000"}}
    result = pod(serving(value))
    (fetch,) = result["initContainers"]
    assert fetch["image"] == "kserve/storage-initializer:v0.20.0"
    assert fetch["args"] == ["s3://b/k", "/mnt/models"]
    secret = {"name": "keys", "key": "AWS_SECRET_ACCESS_KEY"}
    assert fetch["env"][1] == {
        "name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": secret},
    }  # fmt: skip
    assert fetch["env"][2] == {"name": "AWS_ENDPOINT_URL", "value": "http://minio:9000"}
    assert fetch["volumeMounts"] == [{"name": "model", "mountPath": "/mnt/models"}]
    assert result["containers"][0]["volumeMounts"][0]["readOnly"] is True
    # The engine container must not get the bucket's credentials.
    assert "env" not in result["containers"][0]


def test_init_container_fetches_from_the_hub() -> None:
    value = {"uri": f"{HF}@v1", "fetch": "InitContainer", "tokenSecret": {"name": "hub"},
             "fetcher": {"image": "mirror/fetch:1", "command": ["/fetch", "--quiet"]}}  # fmt: skip
    manifest = serving(value)
    (fetch,) = pod(manifest)["initContainers"]
    assert (fetch["image"], fetch["command"]) == ("mirror/fetch:1", ["/fetch", "--quiet"])
    # As in KServe's storage-initializer.
    assert fetch["args"] == ["hf://Qwen/Qwen3-8B:v1", "/mnt/models"]
    assert main(manifest)["args"] == [
        "--model", "/mnt/models", "--served-model-name", "Qwen/Qwen3-8B",
    ]  # fmt: skip


def test_lora_fields_become_arguments() -> None:
    adapters = [{"name": "a", "uri": "hf://x/y"}, {"name": "b", "uri": "pvc://more/b"}]
    value = {"uri": HF, "name": "q", "lora": {"adapters": adapters, "maxRank": 8,
             "maxAdapters": 2, "maxCpuAdapters": 4}}  # fmt: skip
    common = ["--served-model-name", "q", "--enable-lora"]
    modules = ["a=x/y", "b=/mnt/models-adapters/b", "--max-lora-rank", "8"]
    assert main(serving(value))["args"] == [
        "--model", "Qwen/Qwen3-8B", *common, "--lora-modules", *modules,
        "--max-loras", "2", "--max-cpu-loras", "4",
    ]  # fmt: skip
    assert main(serving(value, **SGLANG))["args"] == [
        "--model-path", "Qwen/Qwen3-8B", *common, "--lora-paths", *modules,
        "--max-loras-per-batch", "2", "--max-loaded-loras", "4",
    ]  # fmt: skip
    fetched = {"uri": HF, "lora": {"adapters": [{"name": "c", "uri": "s3://b/c"}]}}
    (fetch,) = pod(serving(fetched))["initContainers"]
    assert fetch["args"] == ["s3://b/c", "/mnt/models-adapters/c"]


def test_user_argument_equal_to_generated_one_is_kept() -> None:
    result = main(serving({"uri": HF, "name": "q"}, command=["vllm", "serve", "Qwen/Qwen3-8B"],
                        args=["--served-model-name", "q"]))  # fmt: skip
    assert result["command"] == ["vllm", "serve", "Qwen/Qwen3-8B"]
    assert result["args"] == ["--served-model-name", "q"]


@given(
    uri=st.sampled_from((HF, f"{HF}@v1", "pvc://m/p", "s3://b/k", "oci://r/i:1")),
    name=st.none() | st.sampled_from(("served", "it's")),
    form=st.sampled_from(("args", "command", "script", "module", "sglang")),
    pods=st.sampled_from((1, 2)),
)
def test_model_arguments_are_read_back(uri: str, name: str | None, form: str, pods: int) -> None:
    forms: dict[str, dict[str, Any]] = {
        "args": {},
        "command": {"command": ["vllm", "serve"]},
        "script": {"command": ["sh", "-c", "exec vllm serve --port 8000"]},
        "module": {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]},
        "sglang": SGLANG,
    }
    words = forms[form]
    model = {"uri": uri, **({"name": name} if name else {})}
    multinode = nodes(pods, launcher="none") if pods > 1 else None
    for pod_template in pod_templates(serving(model, multinode=multinode, **words)):
        command = parse_command(pod_template["spec"]["containers"][0])
        path = "Qwen/Qwen3-8B" if uri.startswith(HF) else "/mnt/models"
        assert command.model == path
        if uri == f"{HF}@v1":
            assert get_flag_value(command.arguments, "--revision") == "v1"
        wanted = name or ("Qwen/Qwen3-8B" if HF in uri else "svc")
        assert command.served_names == (wanted,)
