"""Accelerators: the memory that is available on each, and their names on clouds and nodes.

The table has the GiB that the driver reports to PyTorch (`torch.cuda.mem_get_info`), which are
fewer than the name suggests. Sources with MiB are from `nvidia-smi` or the node label
`nvidia.com/gpu.memory`: 0.5 GiB, which the driver keeps, is subtracted from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusioninfer_capacity.fit.engines import GIB, Accelerator

# Name, GiB, source, GPU Feature Discovery's products, GKE's names, instance types of EKS and AKS.
_TABLE = """
H100         | 79.18  | llm-d-planner e50305a            | NVIDIA-H100-80GB-HBM3 NVIDIA-H100-PCIe | nvidia-h100-80gb nvidia-h100-mega-80gb | p5.* Standard_ND96isr_H100_v5
H100-NVL     | 93.1   | nvidia-smi 95830 MiB             | NVIDIA-H100-NVL                        |                                        | Standard_NC40ads_H100_v5 Standard_NC80adis_H100_v5
H200         | 139.81 | vLLM 0.11.0's log                | NVIDIA-H200 NVIDIA-H200-NVL            | nvidia-h200-141gb                      | p5e.* p5en.* Standard_ND96isr_H200_v5
H20          | 95.0   | vllm-project/vllm#51041          | NVIDIA-H20                             |                                        |
H800         | 79.18  | as H100                          | NVIDIA-H800 NVIDIA-H800-PCIe           |                                        |
GH200        | 95.08  | nvidia-smi 97871 MiB             | NVIDIA-GH200-480GB                     |                                        |
GB300        | 277.05 | nvidia-smi 284208 MiB            | NVIDIA-GB300                           |                                        |
GB200        | 184.53 | nvidia-smi 189471 MiB            | NVIDIA-GB200                           | nvidia-gb200                           | p6e-gb200.*
B300         | 267.69 | SemiAnalysisAI/InferenceX-app    | NVIDIA-B300-SXM6-AC NVIDIA-B300        | nvidia-b300                            | p6-b300.*
B200         | 178.35 | unslothai/unsloth#3411           | NVIDIA-B200                            | nvidia-b200                            | p6-b200.*
A100         | 79.15  | vLLM 0.8.5's log                 | NVIDIA-A100-SXM4-80GB NVIDIA-A100-80GB-PCIe | nvidia-a100-80gb                  | p4de.* Standard_ND96amsr_A100_v4 Standard_NC24ads_A100_v4 Standard_NC48ads_A100_v4 Standard_NC96ads_A100_v4
A800         | 79.15  | as A100                          | NVIDIA-A800-SXM4-80GB NVIDIA-A800-80GB-PCIe |                                   |
A100-40GB    | 39.38  | vllm-project/vllm#16570          | NVIDIA-A100-SXM4-40GB NVIDIA-A100-PCIE-40GB | nvidia-tesla-a100                 | p4d.* Standard_ND96asr_v4
L40S         | 44.31  | vLLM 0.10.0's log                | NVIDIA-L40S                            |                                        | g6e.*
L40          | 44.49  | nvidia-smi 46068 MiB             | NVIDIA-L40                             |                                        |
L4           | 22.03  | vLLM 0.29.0's log                | NVIDIA-L4                              | nvidia-l4                              | g6.*
A40          | 44.49  | nvidia-smi 46068 MiB             | NVIDIA-A40                             |                                        |
A30          | 23.5   | gpu.memory label 24576           | NVIDIA-A30                             |                                        |
A10          | 22.0   | modal-client#2797 23028 MiB      | NVIDIA-A10                             |                                        |
A10G         | 22.0   | nvidia-smi 23028 MiB             | NVIDIA-A10G                            |                                        | g5.*
T4           | 14.74  | vLLM 0.7.2's log                 | Tesla-T4 NVIDIA-T4                     | nvidia-tesla-t4                        | g4dn.* Standard_NC4as_T4_v3 Standard_NC8as_T4_v3 Standard_NC16as_T4_v3 Standard_NC64as_T4_v3
V100-32GB    | 31.5   | gpu.memory label 32768           | Tesla-V100-SXM2-32GB Tesla-V100-PCIE-32GB Tesla-V100S-PCIE-32GB |                    | p3dn.* Standard_ND40rs_v2
V100         | 15.5   | 1CatAI/1Cat-vLLM#85 16384 MiB    | Tesla-V100-SXM2-16GB Tesla-V100-PCIE-16GB | nvidia-tesla-v100                   | p3.* Standard_NC6s_v3 Standard_NC12s_v3 Standard_NC24s_v3
RTX-PRO-6000 | 94.97  | nvidia-smi 97887 MiB             | NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition | nvidia-rtx-pro-6000              | g7e.*
RTX-PRO-4500 | 31.38  | vllm-project/vllm#51590          | NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition |                                  |
RTX-5090     | 31.36  | vLLM 0.28.0's log                | NVIDIA-GeForce-RTX-5090                |                                        |
RTX-5080     | 15.42  | nvidia-smi 16303 MiB             | NVIDIA-GeForce-RTX-5080                |                                        |
RTX-4090     | 23.52  | vLLM 0.28.0's log                | NVIDIA-GeForce-RTX-4090                |                                        |
RTX-3090     | 23.58  | vllm-project/vllm#10517          | NVIDIA-GeForce-RTX-3090                |                                        |
RTX-A6000    | 47.5   | vLLM 0.9.2's log                 | NVIDIA-RTX-A6000                       |                                        |
RTX-A5000    | 23.55  | nvidia-smi 24564 MiB             | NVIDIA-RTX-A5000                       |                                        |
MI300X       | 191.98 | vLLM's errors on full devices    | AMD_Instinct_MI300X_OAM AMD_Instinct_MI300X |                                   | Standard_ND96isr_MI300X_v5
MI325X       | 255.98 | as MI300X and MI355X             | AMD_Instinct_MI325_OAM AMD_Instinct_MI325X  |                                   |
MI355X       | 287.98 | SemiAnalysisAI/InferenceX#2522   | AMD_Instinct_MI355X_OAM AMD_Instinct_MI355X |                                   |
"""  # noqa: E501  # a table
#: Compute capability 7.5 and 7.0; bfloat16 needs 8.0.
_WITHOUT_BFLOAT16 = ("T4", "V100", "V100-32GB")


def _parse_rows() -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in _TABLE.strip().splitlines()]


ACCELERATORS: Mapping[str, Accelerator] = {
    name: Accelerator(
        name,
        int(float(total) * GIB),
        large_batches=float(total) >= 70 and name[:4] != "A100",
        has_bfloat16=name not in _WITHOUT_BFLOAT16,
    )
    for name, total, *_ in _parse_rows()
}
_PRODUCTS = {product: row[0] for row in _parse_rows() for product in row[3].split()}
_GKE = {product: row[0] for row in _parse_rows() for product in row[4].split()}
_INSTANCES = {kind.removesuffix("*"): row[0] for row in _parse_rows() for kind in row[5].split()}

#: Node labels that name the accelerator.
PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
AMD_LABEL = "amd.com/gpu.product-name"
GKE_LABEL = "cloud.google.com/gke-accelerator"
_INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_NAME_LABELS = (
    "eks.amazonaws.com/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
)  # fmt: skip


def find_by_labels(labels: Mapping[str, str]) -> Accelerator | None:
    """Return the accelerator of nodes with these labels, or None if unknown.

    Products of shared or partitioned devices (`-SHARED`, `-MIG-1g.10gb`) have no accelerator.
    """
    name = _GKE.get(labels.get(GKE_LABEL, ""))
    for label in (AMD_LABEL, PRODUCT_LABEL):
        name = _PRODUCTS.get(labels.get(label, "")) or name
    for label in _INSTANCE_LABELS:
        kind = labels.get(label, "")
        # AWS instance types have their size after the dot; Azure's are listed in full.
        name = name or _INSTANCES.get(kind) or _INSTANCES.get(f"{kind.partition('.')[0]}.")
    for label in _NAME_LABELS:
        # The name A100 stands for both 40 GB and 80 GB.
        labeled = labels.get(label, "").upper()
        name = name or (labeled if labeled in ACCELERATORS and labeled != "A100" else None)
    if name is not None:
        return ACCELERATORS[name]
    memory = labels.get(MEMORY_LABEL, "")
    product = labels.get(PRODUCT_LABEL, "")
    if re.fullmatch(r"[1-9]\d{3,6}", memory) and not re.search("SHARED|MIG", product):
        return from_memory(product or f"{memory} MiB", int(memory) * 2**20)
    return None


def find_by_name(name: str) -> Accelerator | None:
    """Return the accelerator by its name in the table, its product name or a cloud's name."""
    plain = _normalize(name)
    for table in (_PRODUCTS, _GKE):
        for product, accelerator in table.items():
            if plain == _normalize(product):
                return ACCELERATORS[accelerator]
    short = plain.upper().removeprefix("NVIDIA-").removeprefix("AMD-").removeprefix("INSTINCT-")
    return ACCELERATORS.get(_ALIASES.get(short, short))


def _normalize(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip()).lower()


_ALIASES = {
    "A100-80GB": "A100", "H100-80GB": "H100", "H200-141GB": "H200", "H100-SXM": "H100",
    "V100-16GB": "V100",
}  # fmt: skip


def from_memory(name: str, reported: int) -> Accelerator:
    """Return an accelerator of unknown type from the bytes that `nvidia-smi` reports."""
    total = reported - GIB // 2
    return Accelerator(name, total, total >= 70 * GIB and "A100" not in name)
