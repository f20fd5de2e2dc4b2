"""Rules that hold for both engines."""

from fusioninfer_pulumi.findings import Rule

ACCELERATORS_TOO_FEW = Rule(
    "accelerators-too-few",
    "error",
    "The pods of a replica have the accelerators that the engine's parallel sizes need.",
    remedy="Ask for more accelerators, or lower the parallel sizes.",
    source="https://docs.vllm.ai/en/stable/serving/parallelism_scaling/",
)
LORA_CPU_BELOW_GPU = Rule(
    "lora-cpu-below-gpu",
    "error",
    "At least as many LoRA adapters are kept on the CPU as on the GPU.",
    remedy="Raise the number for the CPU.",
    source="the engines' released sources",
)
OFFLOADING_STATED_TWICE = Rule(
    "offloading-stated-twice",
    "error",
    "KV cache offloading stands in its field or in the arguments.",
    remedy="Remove one of them.",
)
RELEASE_WITHOUT_OFFLOADING = Rule(
    "release-without-offloading",
    "error",
    "The engine's release has KV cache offloading.",
    remedy="Use a newer image.",
)
