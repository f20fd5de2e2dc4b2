"""Generated containers, and the effect of users' values on them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from rows import each_row

import fusioninfer_pulumi.capacity_package
from fusioninfer_pulumi import InferenceServiceArgs, plan_service
from fusioninfer_pulumi.engines.engine_images import parse_image
from fusioninfer_pulumi.engines.engine_presets import PRESETS
from fusioninfer_pulumi.loading.validate import to_manifest
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.presets.expansion import expand
from tests.samples import (
    Manifest,
    container,
    list_findings,
    of_kind,
    plan_of,
    rendered,
    service,
    template,
    warnings,
)

RELEASE = PRESETS["vllm"].release
QWEN = {"model": {"uri": "hf://Qwen/Qwen3-32B"}}
#: A model in neither the catalogue nor the capacity package's table.
UNKNOWN = {"model": {"uri": "hf://team/chat"}}
RECIPE = [
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "hermes",
    "--reasoning-parser",
    "qwen3",
]
#: Settings with which engines finish their requests before they exit.
KEEP_ALIVE = {"name": "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "value": "3700"}
DRAIN = ["--shutdown-timeout", "300"]
HUB_MOUNT = {"name": "huggingface", "mountPath": "/root/.cache/huggingface"}


def short(name: str = "serve", kind: str = "worker", **more: Any) -> Manifest:
    """Return a role without a container."""
    return {"name": name, "componentType": kind, **more}


def pods(manifest: Manifest) -> list[Manifest]:
    """Return the leaders' pod spec of each LeaderWorkerSet."""
    bodies = [
        item["spec"]["leaderWorkerTemplate"]
        for item in of_kind(rendered(manifest), "LeaderWorkerSet")
    ]
    return [body.get("leaderTemplate", body["workerTemplate"])["spec"] for body in bodies]


def engine(manifest: Manifest) -> Manifest:
    """Return the serving container of the first pod."""
    named: Manifest = {item["name"]: item for item in pods(manifest)[0]["containers"]}
    return named.get("vllm") or named["sglang"]


def test_model_and_accelerator_are_enough() -> None:
    manifest = service(short(accelerator="H100", replicas=2), **QWEN)
    assert warnings(manifest) == []
    result = engine(manifest)
    for probe in ("readinessProbe", "startupProbe", "lifecycle"):
        assert result.pop(probe)
    assert result == {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{RELEASE}",
        "command": ["vllm", "serve"],
        "args": ["Qwen/Qwen3-32B", *DRAIN, *RECIPE, "--tensor-parallel-size", "2"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [KEEP_ALIVE],
        "resources": {
            "requests": {"cpu": "8", "memory": "24Gi"},
            "limits": {"nvidia.com/gpu": "2"},
        },
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, HUB_MOUNT],
    }
    pod = pods(manifest)[0]
    assert pod["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "huggingface", "emptyDir": {}},
    ]
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
        "kubernetes.io/hostname",
        "ScheduleAnyway",
    )


@pytest.mark.parametrize(
    "model",
    [{"cache": {"claimName": "models"}}, {"fetch": "InitContainer"}, {"uri": "pvc://models/qwen"}],
    ids=str,
)
def test_only_downloads_of_the_engine_get_an_empty_dir(model: Manifest) -> None:
    manifest = service(short(gpus=2), model={**QWEN["model"], **model})
    assert HUB_MOUNT not in engine(manifest)["volumeMounts"]


@pytest.mark.parametrize("path", ["/root/.cache", "/root/.cache/huggingface/"])
def test_user_volume_for_downloads_is_kept(path: str) -> None:
    fields = {"name": "vllm", "volumeMounts": [{"name": "cache", "mountPath": path}]}
    spec = {"containers": [fields], "volumes": [{"name": "cache", "hostPath": {"path": "/models"}}]}
    manifest = service(short(accelerator="H100", template={"spec": spec}), **QWEN)
    assert HUB_MOUNT not in engine(manifest)["volumeMounts"]


def test_cpu_needs_no_gpus() -> None:
    manifest = service(short(accelerator="cpu"), model={"uri": "hf://Qwen/Qwen3-0.6B"})
    assert warnings(manifest) == []
    result = engine(manifest)
    assert result["image"] == f"vllm/vllm-openai-cpu:v{RELEASE}-x86_64"
    assert result["args"] == ["Qwen/Qwen3-0.6B", "--max-model-len", "auto", *DRAIN]
    assert result["env"] == [KEEP_ALIVE, {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "4"}]
    assert "limits" not in result["resources"]
    assert plan_of(manifest).total_accelerators == 0


def test_multi_node_model_is_split_by_layers() -> None:
    manifest = service(short(accelerator="H100"), model={"uri": "hf://deepseek-ai/DeepSeek-R1"})
    assert warnings(manifest) == []
    (role,) = plan_of(manifest).roles
    assert (role.nodes, role.accelerators_per_pod) == (2, 8)
    words = engine(manifest)["args"]
    assert words[words.index("--tensor-parallel-size") :][:2] == ["--tensor-parallel-size", "8"]
    assert words[words.index("--pipeline-parallel-size") :][:2] == ["--pipeline-parallel-size", "2"]
    assert "--nnodes" in words  # the image has no Ray
    assert "ray" not in str(words)


def test_prefill_and_decode_of_several_nodes_spread_experts() -> None:
    router = short("router", "router", gateway={"implementation": "istio"}, httproute={})
    roles = [short(name, kind, accelerator="H100")
             for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))]  # fmt: skip
    manifest = service(router, *roles, model={"uri": "hf://deepseek-ai/DeepSeek-R1"})
    assert warnings(manifest) == []
    prefill, decode = (spec["containers"][0] for spec in pods(manifest))
    for result, transfer in ((prefill, "kv_producer"), (decode, "kv_consumer")):
        words = result["args"]
        # 16 data-parallel attention ranks would gather 131,072 tokens each, too many for 80 GiB.
        assert words[words.index("--tensor-parallel-size") :][:2] == ["--tensor-parallel-size", "4"]
        assert words[words.index("--data-parallel-size") :][:2] == ["--data-parallel-size", "4"]
        assert "--enable-expert-parallel" in words
        assert transfer in words[words.index("--kv-transfer-config") + 1]


def test_gpu_count_sets_parallel_sizes_of_unknown_model() -> None:
    words = engine(service(short(gpus=4), **UNKNOWN))["args"]
    assert words == ["team/chat", *DRAIN, "--tensor-parallel-size", "4"]
    both = engine(service(short(gpus=4, multinode={"nodeCount": 2}), **UNKNOWN))["args"]
    assert both[both.index("--pipeline-parallel-size") :][:2] == ["--pipeline-parallel-size", "2"]
    assert "--shutdown-timeout" not in both


@each_row(
    ("role", "gpus"),
    [
        ({"parallelism": {"tensor": 2, "data": 2}}, 4),
        ({"template": template({"name": "vllm", "args": ["-tp", "4"]})}, 4),
        ({"template": template({"name": "vllm",
                                "resources": {"limits": {"nvidia.com/gpu": 2}}})}, 2),
        ({"parallelism": {"pipeline": 2, "tensor": 8}}, 8),
    ],
)  # fmt: skip
def test_users_parallel_sizes_take_precedence(role: Any, gpus: int) -> None:
    (planned,) = plan_of(service(short(accelerator="H100", **role), **QWEN)).roles
    assert planned.accelerators_per_pod == gpus


def test_partial_template_is_merged_by_container_name() -> None:
    fields = {
        "name": "vllm",
        "args": ["--max-model-len", "8192"],
        "env": [{"name": "HF_HOME", "value": "/data"}],
        "resources": {"requests": {"cpu": 64}},
    }
    partial = {
        "metadata": {"labels": {"team": "chat"}},
        "spec": {
            "nodeSelector": {"pool": "h100"},
            "containers": [{"name": "proxy", "image": "proxy:1"}, fields],
        },
    }
    manifest = service(short(accelerator="H100", template=partial), **QWEN)
    (pod, result) = pods(manifest)[0], engine(manifest)
    assert [item["name"] for item in pod["containers"]] == ["proxy", "vllm"]
    assert pod["nodeSelector"] == {"pool": "h100"}
    assert result["image"] == f"vllm/vllm-openai:v{RELEASE}"
    assert result["args"][1:3] == ["--max-model-len", "8192"]
    assert result["args"][3:10] == [*DRAIN, *RECIPE]
    assert result["env"] == [{"name": "HF_HOME", "value": "/data"}, KEEP_ALIVE]
    assert result["resources"]["requests"] == {
        "cpu": 64,
        "memory": "16Gi",
    }  # a shorter maximum length


def test_flag_and_value_in_one_element_take_precedence() -> None:
    user_template = template({"name": "vllm", "args": ["--shutdown-timeout 60"]})
    args = engine(service(short(gpus=1, template=user_template), **UNKNOWN))["args"]
    assert [word for word in args if "shutdown" in word] == ["--shutdown-timeout"]
    assert args[args.index("--shutdown-timeout") + 1] == "60"


def test_switch_of_the_user_is_recorded_without_the_next_argument() -> None:
    user_args = ["--enable-auto-tool-choice", "--seed", "1"]
    user_template = template({"name": "vllm", "args": user_args})
    plan = plan_of(service(short(accelerator="H100", template=user_template), **QWEN))
    values = {value.field: value.value for value in plan.provenance.values}
    assert values["args --enable-auto-tool-choice"] == ""


def test_generated_containers_drain_in_single_pod_replicas() -> None:
    (pod,) = pods(service(short(gpus=1), **UNKNOWN))
    assert pod["terminationGracePeriodSeconds"] > 300
    older = engine(service(short(gpus=1, engine={"version": "0.17.0"}), **UNKNOWN))
    assert "--shutdown-timeout" not in older["args"]
    pairs = [short("prefill", "prefiller", gpus=1), short("decode", "decoder", gpus=1)]
    for part in pods(service(*pairs, **UNKNOWN)):
        assert part["terminationGracePeriodSeconds"] == pod["terminationGracePeriodSeconds"]
        args = part["containers"][0]["args"]
        assert args[args.index("--shutdown-timeout") :][:2] == DRAIN


def test_generated_drain_ends_within_users_grace_period() -> None:
    def drain(grace: int) -> list[str]:
        args: list[str] = engine(
            service(short(gpus=1, template={"spec": {"terminationGracePeriodSeconds": grace}}),
                    **UNKNOWN)
        )["args"]  # fmt: skip
        at = args.index("--shutdown-timeout") if "--shutdown-timeout" in args else len(args)
        return args[at : at + 2]

    assert [drain(grace) for grace in (30, 120, 900)] == [[], ["--shutdown-timeout", "80"], DRAIN]


def test_size_of_shared_memory_limits_generated_volume() -> None:
    roles = [short(name, f"{name}er", gpus=1) for name in ("prefill", "decod")]
    roles[0]["kvTransfer"] = {"sharedMemory": "64Gi"}
    limits = [part["volumes"][0]["emptyDir"] for part in pods(service(*roles, **UNKNOWN))]
    assert limits == [{"medium": "Memory", "sizeLimit": "64Gi"}, {"medium": "Memory"}]


def test_generated_requests_are_at_most_the_users_limits() -> None:
    limits = {"cpu": 4, "memory": "100Gi"}
    user_template = template({"name": "vllm", "resources": {"limits": limits}})
    manifest = service(short(gpus=1, template=user_template), **UNKNOWN)
    assert engine(manifest)["resources"]["requests"] == {"cpu": 4, "memory": "16Gi"}
    assert [line for line in list_findings(manifest) if "requests" in line] == []
    assert ("cpu", "4", "user") in [value[1:4] for value in plan_of(manifest).provenance.values]


def test_generated_variables_follow_the_users() -> None:
    env = [{"name": "PGPASSWORD", "value": "hunter2"}]
    user_template = template({"name": "vllm", "env": env})
    manifest = service(short(gpus=1, template=user_template), **UNKNOWN)
    assert engine(manifest)["env"] == [*env, KEEP_ALIVE]
    assert [
        line for line in list_findings(manifest) if "containers[0].env[0].value: PGPASSWORD" in line
    ]
    env.append({**KEEP_ALIVE, "value": "60"})
    assert engine(manifest)["env"] == env


@each_row("spec", [{"spec": {"priorityClassName": "high"}}, {}])
def test_template_may_omit_containers(spec: Any) -> None:
    partial = {"metadata": {"labels": {"team": "a"}}, **spec}
    pod = pods(service(short(gpus=1, template=partial), **UNKNOWN))[0]
    assert [item["name"] for item in pod["containers"]] == ["vllm"]
    assert pod.items() >= spec.get("spec", {}).items()


def test_user_argument_replaces_the_recipes_argument() -> None:
    user_template = template({"name": "vllm", "args": ["--tool-call-parser", "qwen3_coder"]})
    manifest = service(short(accelerator="H100", template=user_template), **QWEN)
    assert warnings(manifest) == []
    words = engine(manifest)["args"]
    assert words.count("--tool-call-parser") == 1
    assert "qwen3_coder" in words


def test_user_image_with_engine_is_completed() -> None:
    user_template = template({"name": "vllm", "image": "registry.example.com/own/vllm-openai:v1"})
    manifest = service(short(gpus=2, template=user_template, engine={}), **QWEN)
    result = engine(manifest)
    assert result["image"] == "registry.example.com/own/vllm-openai:v1"
    assert result["command"] == ["vllm", "serve"]
    assert result["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert plan_of(manifest).engines == ()


def test_template_with_an_image_is_unchanged() -> None:
    args = InferenceServiceArgs(
        name="svc", model={"uri": "hf://Qwen/Qwen3-8B"},
        roles=[{"name": "a", "componentType": "worker", "template": template(container(args=[]))}],
    )  # fmt: skip
    assert expand(args).args is args


def test_generated_image_has_release_and_registry() -> None:
    explicit: dict[str, Any] = {"engine": {"version": "0.33.0"}, "imageRegistry": "registry:5000/a"}
    manifest = service(short(gpus=1), short("other", gpus=1, engine={"version": "0.31.0"}),
                       **UNKNOWN, **explicit)  # fmt: skip
    images = {spec["containers"][0]["image"] for spec in pods(manifest)}
    assert images == {
        "registry:5000/a/vllm/vllm-openai:v0.33.0",
        "registry:5000/a/vllm/vllm-openai:v0.31.0",
    }
    assert [(item.role, item.release, item.is_default) for item in plan_of(manifest).engines] == [
        ("serve", "0.33.0", False),
        ("other", "0.31.0", False),
    ]


def test_sglang_listens_on_all_addresses() -> None:
    manifest = service(short(gpus=2), engine={"name": "sglang"}, **UNKNOWN)
    result = engine(manifest)
    assert result["args"][:2] == ["--host", "0.0.0.0"]
    assert result["ports"] == [{"name": "http", "containerPort": 30000}]
    assert result["args"][result["args"].index("--tp-size") :][:2] == ["--tp-size", "2"]
    assert "--tool-call-parser" not in result["args"]


def test_port_of_the_role_is_used() -> None:
    result = engine(service(short(gpus=1, port=8080), **UNKNOWN))
    assert result["args"][result["args"].index("--port") :][:2] == ["--port", "8080"]
    assert result["ports"] == [{"name": "http", "containerPort": 8080}]
    assert result["readinessProbe"]["httpGet"]["port"] == 8080


# A third-party package may lack methods.
@pytest.mark.parametrize("package", [None, SimpleNamespace(check=lambda *_: ({}, []))])
def test_unknown_model_without_capacity_package_is_rejected(
    monkeypatch: pytest.MonkeyPatch, package: object
) -> None:
    monkeypatch.setattr(fusioninfer_pulumi.capacity_package, "load_package", lambda: package)
    (text,) = list_findings(service(short(accelerator="H100"), **UNKNOWN), "error")
    assert text.startswith(
        "roles[0].gpus: is required: the number of GPUs per pod, because estimating it needs the "
        "package fusioninfer-capacity: pip install"
    )


def test_pods_do_not_depend_on_the_capacity_package(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = service(short(accelerator="H100", replicas=2), **QWEN)
    before = rendered(manifest)
    monkeypatch.setattr(fusioninfer_pulumi.capacity_package, "load_package", lambda: None)
    assert rendered(manifest) == before


def test_scaling_restarts_nothing() -> None:
    def revisions(replicas: int) -> set[str]:
        manifest = service(short(accelerator="H100", replicas=replicas), **QWEN)
        return {role.pods.revision for role in plan_of(manifest).roles}

    assert revisions(1) == revisions(4)


def test_host_memory_for_the_kv_cache_is_requested() -> None:
    for copies, memory in ((1, "80Gi"), (4, "296Gi")):
        role = short(gpus=copies, kvCacheOffloading={"cpu": "64Gi"}, parallelism={"data": copies})
        manifest = service(role, **UNKNOWN)
        assert engine(manifest)["resources"]["requests"]["memory"] == memory
        assert warnings(manifest) == []


def test_engine_loads_model_from_cache() -> None:
    cache = {"storage": {"size": "100Gi"}, "warmUp": True}
    model = {"uri": "hf://Qwen/Qwen3-32B", "cache": cache}
    manifest = service(short(accelerator="H100"), model=model)
    assert warnings(manifest) == []
    assert engine(manifest)["args"][0].startswith("/mnt/model-cache/Qwen-Qwen3-32B-")


def test_timeouts_are_extended_for_large_weights() -> None:
    args = InferenceServiceArgs(**service(
        short(accelerator="H200"), model={"uri": "hf://deepseek-ai/DeepSeek-R1"}))  # fmt: skip
    assert expand(args).args.wait.timeout == "69m"
    user_args = InferenceServiceArgs(**service(
        short(accelerator="H200"), model={"uri": "hf://deepseek-ai/DeepSeek-R1"},
        wait={"timeout": "20m"}))  # fmt: skip
    expansion = expand(user_args)
    assert expansion.args.wait.timeout == "20m"
    (reason,) = [value for value in expansion.provenance.values if value.field.endswith(".timeout")]
    assert (reason.role, reason.field, reason.value) == ("", "rollout.timeout", "69m")
    assert reason.reason == "59m to start a replica (from startup.modelSize), plus 10m"


def test_every_value_has_an_origin() -> None:
    user_template = template({"name": "vllm", "resources": {"requests": {"cpu": 64}}})
    plan = plan_of(service(short(accelerator="H100", template=user_template), **QWEN))
    origins = {value.field: value.source for value in plan.provenance.values}
    assert origins["engine"] == "library default"
    assert origins["image"] == "engine release"
    assert origins["gpus"] == "model catalogue"
    assert origins["cpu"] == "user"
    assert origins["memory"] == "library default"
    assert origins["args --tool-call-parser"] == "model catalogue"
    assert set(origins.values()) <= {
        "user", "model catalogue", "engine release", "capacity", "library default",
    }  # fmt: skip


@pytest.mark.parametrize(
    "manifest",
    [
        service(short(accelerator="H100", replicas=2), **QWEN),
        service(short(accelerator="cpu"), **QWEN),
        service(short(accelerator="H100"), model={"uri": "hf://deepseek-ai/DeepSeek-R1"}),
        service(short(gpus=2, template={"spec": {"nodeSelector": {"a": "b"}}}), **UNKNOWN,
                engine={"name": "sglang"}, imageRegistry="registry.example.com"),
    ],
    ids=["gpus", "cpu", "nodes", "sglang"],
)  # fmt: skip
def test_expanded_spec_renders_the_same_objects(manifest: Manifest) -> None:
    args = InferenceServiceArgs(**manifest)
    out = to_manifest(expand(args).args)
    assert "engine" not in out["spec"]
    assert all(
        "image" in role["template"]["spec"]["containers"][0] for role in out["spec"]["roles"]
    )
    assert rendered(out) == render(plan_service(args))
    assert plan_of(out).provenance.values == ()


AMD = {"accelerator": "MI300X", "gpus": 2}


def test_amd_accelerator_gets_image_and_resource_of_amd() -> None:
    container = engine(service(short(**AMD), **QWEN))
    assert container["image"].startswith("vllm/vllm-openai-rocm:v")
    assert container["resources"]["limits"] == {"amd.com/gpu": "2"}
    assert list_findings(service(short(**AMD), **QWEN), "warning") == []


def test_template_with_gpus_of_amd_gets_its_image() -> None:
    user_template = template({"name": "vllm", "resources": {"limits": {"amd.com/gpu": 1}}})
    container = engine(service(short(template=user_template), **UNKNOWN))
    assert container["image"].startswith("vllm/vllm-openai-rocm:v")
    assert container["resources"]["limits"] == {"amd.com/gpu": 1}


def test_amd_gpu_count_follows_model_size() -> None:
    container = engine(service(short(accelerator="MI300X"), **QWEN))
    assert container["resources"]["limits"] == {"amd.com/gpu": "1"}


@each_row("name", ["cpu:v0.32.0-x86_64", "rocm:v0.32.0"])
def test_images_for_cpus_and_amd_have_their_release(name: str) -> None:
    image = parse_image(f"vllm/vllm-openai-{name}")
    assert (image.release, image.stock_release, image.is_stock) == ("0.32.0", None, False)


# The mirror of all images that the library chooses.


def images(value: Any) -> set[str]:
    """Return all images in a value."""
    if isinstance(value, dict):
        fields = {value["image"]} if isinstance(value.get("image"), str) else set()
        return fields.union(*(images(item) for item in value.values()))
    return set().union(*(images(item) for item in value)) if isinstance(value, list) else set()


def test_image_registry_mirrors_all_default_images() -> None:
    roles = [
        {"name": "router", "componentType": "router", "gateway": {}, "httproute": {}},
        short("prefill", "prefiller", gpus=1),
        short("decode", "decoder", gpus=1),
    ]
    model = {"uri": "s3://models/chat", "cache": {"storage": {"size": "10Gi"}, "warmUp": True}}
    result = images(list(rendered(service(*roles, model=model))))
    mirrored = images(list(rendered(service(*roles, model=model, imageRegistry="mirror:5000/llm"))))
    assert {image.partition(":")[0].rpartition("/")[2] for image in result} == {
        "vllm-openai", "llm-d-router-endpoint-picker", "llm-d-router-disagg-sidecar",
        "storage-initializer",
    }  # fmt: skip
    paths = {re.sub(r"^[^/]*\.[^/]*/", "", image) for image in result}
    assert mirrored == {f"mirror:5000/llm/{path}" for path in paths}


def test_image_registry_keeps_explicit_images() -> None:
    router = {
        "name": "router", "componentType": "router", "gateway": {}, "httproute": {},
        "endpointPicker": {"image": "own.example.com/a/epp:v1.5.0"},
    }  # fmt: skip
    manifest = service(router, short(template=template()), imageRegistry="mirror.example.com")
    assert "own.example.com/a/epp:v1.5.0" in images(list(rendered(manifest)))


# Values that users often add to generated containers.

QWEN = {"model": {"uri": "hf://Qwen/Qwen3-32B"}}


def test_model_may_be_a_repository_without_organization() -> None:
    manifest = service(short(gpus=1), model={"uri": "hf://gpt2"})
    assert list_findings(manifest, "error") == []
    assert "gpt2" in engine(manifest)["command"] + engine(manifest)["args"]


def test_port_argument_sets_the_container_port() -> None:
    fields = {"spec": {"containers": [{"name": "vllm", "args": ["--port", "9000"]}]}}
    manifest = service(short(gpus=1, template=fields), monitoring={}, **QWEN)
    assert list_findings(manifest, "error") == []
    assert engine(manifest)["ports"] == [{"name": "http", "containerPort": 9000}]
