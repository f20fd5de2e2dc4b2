"""Engines that ask for no accelerator, and names that are nearly those of accelerators."""

from __future__ import annotations

from typing import Any

import pytest
from samples import Manifest, container, nodes, role, rules, service, template

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.kube.resource_requests import suggest_accelerator

SERVING = "roles[0].template.spec.containers[0]"
MISSING = "accelerators-not-requested"
SLIP = "unknown-resource"
GPU = {"nvidia.com/gpu": 1}


def engine(limits: Any = None, **more: Any) -> Manifest:
    given = {"image": "vllm/vllm-openai:v0.11.0", "resources": {"limits": limits or {}}, **more}
    return container(**given)


def found(*containers: Any, rule: str = MISSING, **spec: Any) -> list[tuple[str, str]]:
    manifest = service(role(template=template(*containers, **spec)))
    return [each for each in rules(manifest) if each[0] == rule]


@pytest.mark.parametrize(
    "given",
    [
        engine(),
        engine(resources=None),
        engine({"cpu": "8", "memory": "64Gi"}),
        engine({"nvidia.com/gpu": 0}),
        engine({"nvidia.com/gpu": "0"}),
        # Of these none computes.
        engine({"rdma/ib": 1}),
        engine({"vpc.amazonaws.com/efa": 4}),
        engine(image="lmsysorg/sglang:v0.5.3", command=["python3", "-m", "sglang.launch_server"]),
        engine(image="registry.example.com/own:1", command=["vllm", "serve"]),
        engine(image="registry.example.com/own:1", command=["sh", "-c"], args=["vllm serve m"]),
        engine(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]),
        engine(args=["--model", "m", "--device", "cuda"]),
    ],
)
def test_engine_without_an_accelerator_is_a_warning(given: Manifest) -> None:
    assert found(given) == [(MISSING, f"{SERVING}.resources")]


@pytest.mark.parametrize(
    "given",
    [
        engine(GPU),
        engine(resources={"requests": GPU, "limits": GPU}),
        *(
            engine({name: 1})
            for name in ("amd.com/gpu", "google.com/tpu", "habana.ai/gaudi", "huawei.com/Ascend910",
                         "nvidia.com/mig-1g.5gb", "gpu.intel.com/xe", "aws.amazon.com/neuron",
                         # Names that no table has.
                         "volcano.sh/vgpu-number", "nvidia.com/H100", "metax-tech.com/gpu")
        ),
        engine(resources={"claims": [{"name": "card"}]}),
        engine(image="vllm/vllm-openai-cpu:v0.11.0"),
        engine(image="public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.11.0"),
        engine(image="registry.example.com/vllm:0.11-cpu"),
        engine(image="lmsysorg/sglang:v0.5.3-xeon"),
        engine(image="registry.example.com/vllm-sim:1"),
        engine(args=["--model", "m", "--device", "cpu"]),
        engine(args=["--model", "m", "--device=cpu"]),
        engine(env=[{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "40"}]),
        # Taken from the node without asking.
        engine(securityContext={"privileged": True}),
        # Not a known engine.
        engine(image="registry.example.com/own:1", command=["/app/serve"]),
    ],
)  # fmt: skip
def test_engines_with_devices_or_for_cpus_are_accepted(given: Manifest) -> None:
    spec = {"resourceClaims": [{"name": "card", "resourceClaimTemplateName": "card"}]}
    assert found(given, **(spec if "claims" in (given["resources"] or {}) else {})) == []


def test_devices_of_another_container_are_not_the_engines() -> None:
    side = {"name": "side", "image": "side:1", "resources": {"limits": GPU}}
    assert found(engine(), side) == [(MISSING, f"{SERVING}.resources")]


def test_claims_of_the_role_are_accelerators() -> None:
    claims = [{"name": "cards", "deviceClassName": "gpu.nvidia.com"}]
    manifest = service(role(template=template(engine()), resourceClaims=claims))
    assert MISSING not in dict(rules(manifest))


def test_workers_that_run_the_engine_need_them_too() -> None:
    def wide(worker: Manifest, launcher: str | None) -> list[str]:
        spec = role(
            template=None,
            leaderTemplate=template(engine(GPU)),
            workerTemplate=template(worker),
            multinode=nodes(2, **({"launcher": launcher} if launcher else {})),
        )
        return [at for rule, at in rules(service(spec)) if rule == MISSING]

    at = "roles[0].workerTemplate.spec.containers[0].resources"
    bare = engine(args=None, image="registry.example.com/vllm:1")
    assert wide(engine(), "multiprocessing") == [at]
    assert wide(bare, "ray") == [at]
    assert wide(engine(GPU), "multiprocessing") == []
    join = engine(image="registry.example.com/own:1", command=["/join"], args=None)
    assert wide(join, "none") == []  # whatever that is


NVIDIA, TPU, GAUDI = "nvidia.com/gpu", "google.com/tpu", "habana.ai/gaudi"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(
            (name, NVIDIA)
            for name in ("nvidia.com/gpus", "nvidia.com/GPU", "NVIDIA.com/gpu", "nvidia.com/gup",
                         "nvdia.com/gpu", "nvidia.co/gpu")
        ),
        ("amd.com/gpus", "amd.com/gpu"),
        ("google.com/tpus", TPU),
        ("habana.ai/gaudis", GAUDI),
        ("huawei.com/ascend910", "huawei.com/Ascend910"),
        ("aws.amazon.com/neurons", "aws.amazon.com/neuron"),
        ("aws.amazon.com/neuroncores", "aws.amazon.com/neuroncore"),
        ("gpu.intel.com/i951", "gpu.intel.com/i915"),
    ],
)  # fmt: skip
def test_misspelt_resource_suggests_closest_name(written: str, meant: str) -> None:
    assert suggest_accelerator(written) == meant
    (finding,) = found(engine({written: 1}), rule=SLIP)
    assert finding[1].startswith(f"{SERVING}.resources.limits")
    # One finding for one slip.
    assert found(engine({written: 1})) == []
    manifest = service(role(template=template(engine({written: 1}))))
    # In the plural or of another case it is no other device.
    same = written.lower().removesuffix("s") == meant.lower().removesuffix("s")
    severity = Severity.WARNING if "/" in written and not same else Severity.ERROR
    assert SLIP in dict(rules(manifest, severity))


@pytest.mark.parametrize(
    "name",
    [
        NVIDIA, "nvidia.com/gpu.shared", "nvidia.com/mig-3g.20gb", "nvidia.com/gpumem",
        "nvidia.com/gpucores", "nvidia.com/vgpu", "nvidia.com/pgpu", "nvidia.com/H100",
        "huawei.com/Ascend910B", "huawei.com/Ascend310", "huawei.com/npu", "metax-tech.com/gpu",
        "gpu.intel.com/i915_monitoring", "gpu.intel.com/tiles", "rdma/ib", "cpu", "memory",
        "ephemeral-storage", "hugepages-2Mi", "aliyun.com/gpu-mem", "vpc.amazonaws.com/efa",
        "example.com/fpga", "arm.com/gpu",
    ],
)  # fmt: skip
def test_other_resource_names_are_accepted(name: str) -> None:
    assert suggest_accelerator(name) is None


def test_every_container_of_every_template_is_read() -> None:
    wrong = {"image": "side:1", "resources": {"limits": {"nvidia.com/gpus": 1}}}
    pod = template(engine(GPU), {"name": "a", **wrong}, initContainers=[{"name": "b", **wrong}])
    manifest = service(role(template=pod))
    assert [at for rule, at in rules(manifest) if rule == SLIP] == [
        "roles[0].template.spec.containers[1].resources.limits[nvidia.com/gpus]",
        "roles[0].template.spec.initContainers[0].resources.limits[nvidia.com/gpus]",
    ]
