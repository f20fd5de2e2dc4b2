"""Engines without accelerators, and misspelled accelerator names."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import Manifest, container, role, rules, service, template

from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.kube.resource_requests import suggest_accelerator

SERVING = "roles[0].template.spec.containers[0]"
MISSING = "accelerators-not-requested"
TYPO = "unknown-resource"


def engine(limits: Any = None, **more: Any) -> Manifest:
    value = {"image": "vllm/vllm-openai:v0.11.0", "resources": {"limits": limits or {}}, **more}
    return container(**value)


def list_findings(*containers: Any, rule: str = MISSING, **spec: Any) -> list[tuple[str, str]]:
    manifest = service(role(template=template(*containers, **spec)))
    return [item for item in rules(manifest) if item[0] == rule]


NVIDIA, TPU, GAUDI = "nvidia.com/gpu", "google.com/tpu", "habana.ai/gaudi"


@each_row(
    ("typo", "meant"),
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
def test_unknown_resource_suggests_closest_name(typo: str, meant: str) -> None:
    assert suggest_accelerator(typo) == meant
    (finding,) = list_findings(engine({typo: 1}), rule=TYPO)
    assert finding[1].startswith(f"{SERVING}.resources.limits")
    # The missing accelerator is not reported separately.
    assert list_findings(engine({typo: 1})) == []
    manifest = service(role(template=template(engine({typo: 1}))))
    # A plural or different case means the same device.
    same = typo.lower().removesuffix("s") == meant.lower().removesuffix("s")
    severity = Severity.WARNING if "/" in typo and not same else Severity.ERROR
    assert TYPO in dict(rules(manifest, severity))


@each_row(
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
