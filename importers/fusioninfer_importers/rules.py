"""Rules that all importers share: findings of one sort have one rule, and the message says more."""

from fusioninfer_pulumi.plugins.importers import Rule

DEFAULT_CHOSEN = Rule(
    "default-chosen",
    "info",
    "A setting that the manifest leaves open has the value that the message names.",
    remedy="Set the field to choose another.",
)
DOCUMENT_UNUSED = Rule(
    "document-unused",
    "warning",
    "A document of another system says something about a service of the input.",
    remedy="Remove it, or read the service's documents together.",
)
FIELD_INVALID = Rule(
    "field-invalid",
    "error",
    "A manifest keeps the rules of its own system.",
    remedy="Correct the field as the message says.",
)
FIELD_LEFT_OUT = Rule(
    "field-left-out",
    "info",
    "A field without effect on the service is left out.",
    remedy="Nothing.",
)
FIELD_TRANSLATED = Rule(
    "field-translated",
    "info",
    "A field becomes another one that has the effect which the message describes.",
    remedy="Nothing.",
)
FIELD_UNSUPPORTED = Rule(
    "field-unsupported",
    ("error", "warning"),
    "A field of another system's manifest has a counterpart here.",
    remedy="Change it as the message says, or leave it out with `--allow-lossy`.",
)
REFERENCE_MISSING = Rule(
    "reference-missing",
    ("error", "warning"),
    "The objects that a manifest names or selects are in the input.",
    remedy="Add them as documents, or correct the name.",
)
SHELL_EXPANSION_UNSUPPORTED = Rule(
    "shell-expansion-unsupported",
    "error",
    "Arguments hold nothing that only a shell in the pod could tell.",
    remedy="Write what it becomes.",
)
