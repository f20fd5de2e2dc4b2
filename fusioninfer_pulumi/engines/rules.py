"""Rules that hold for both engines."""

from fusioninfer_pulumi.findings import Rule

ARGUMENT_VALUE_INVALID = Rule(
    "argument-value-invalid",
    ("error", "warning"),
    "Each argument has the value that it takes: of its type, among its choices, within its bounds.",
    remedy="Correct the value.",
    source="the argument tables of the engine's releases",
)

ACCELERATORS_TOO_FEW = Rule(
    "accelerators-too-few",
    "error",
    "The pods of a replica have the accelerators that the engine's parallel sizes need.",
    remedy="Ask for more accelerators, or lower the parallel sizes.",
    source="https://docs.vllm.ai/en/stable/serving/parallelism_scaling/",
)
UNSUPPORTED_BY_ENGINE = Rule(
    "unsupported-by-engine",
    ("error", "info"),
    "The engine has what a field asks of it.",
    remedy="Remove the field, or use the other engine.",
)
