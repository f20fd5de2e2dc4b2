"""Rules that hold for both engines."""

from fusioninfer_pulumi.findings import Rule

ARGUMENT_VALUE_INVALID = Rule("argument-value-invalid")

ACCELERATORS_TOO_FEW = Rule("accelerators-too-few")
UNSUPPORTED_BY_ENGINE = Rule("unsupported-by-engine")
