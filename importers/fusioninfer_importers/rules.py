"""Rules that all importers share: findings of one sort have one rule, and the message says more."""

from fusioninfer_pulumi.plugins.importers import Rule

DEFAULT_CHOSEN = Rule(
    "default-chosen",
    "info",
    "Field is not set; the message names the value used.",
    remedy="Set the field to use another value.",
)
DOCUMENT_UNUSED = Rule(
    "document-unused",
    "warning",
    "Document has no effect on any service of the input.",
    remedy="Remove it, or pass all documents of the service together.",
)
FIELD_INVALID = Rule(
    "field-invalid",
    "error",
    "Field violates a rule of its own system.",
    remedy="Correct the field as the message says.",
)
FIELD_LEFT_OUT = Rule(
    "field-left-out",
    "info",
    "Field has no effect on the service and is ignored.",
    remedy="No action needed.",
)
FIELD_TRANSLATED = Rule(
    "field-translated",
    "info",
    "Field is converted to a different field with the same effect.",
    remedy="No action needed.",
)
FIELD_UNSUPPORTED = Rule(
    "field-unsupported",
    ("error", "warning"),
    "Field has no counterpart in InferenceService.",
    remedy="Change the field as the message says, or ignore it with `--allow-lossy`.",
)
REFERENCE_MISSING = Rule(
    "reference-missing",
    ("error", "warning"),
    "Referenced object is not in the input.",
    remedy="Add them as documents, or correct the name.",
)
SHELL_EXPANSION_UNSUPPORTED = Rule(
    "shell-expansion-unsupported",
    "error",
    "Arguments contain a shell expansion that only the pod can resolve.",
    remedy="Write the expanded value.",
)
