"""Rules of endpoint pickers that several modules check."""

from fusioninfer_pulumi.findings import Rule

FLAG_SET_BY_LIBRARY = Rule(
    "flag-set-by-library",
    "error",
    "A flag that is set here is not written by users.",
    remedy="Remove it.",
)
FLAG_UNKNOWN = Rule(
    "flag-unknown",
    ("error", "warning"),
    "The picker's release knows the flag.",
    remedy="Correct the spelling, or use another release.",
)
PICKER_FAMILY_UNKNOWN = Rule(
    "picker-family-unknown",
    "error",
    "`family` is a known one.",
    remedy="Choose one that the message lists.",
)
SCORER_WEIGHT_NOT_POSITIVE = Rule(
    "scorer-weight-not-positive",
    ("error", "warning"),
    "The weight of a scorer is above 0.",
    remedy="Raise it, or remove the scorer.",
)
SCORER_WEIGHT_NOT_WHOLE = Rule(
    "scorer-weight-not-whole",
    "error",
    "The weight of a scorer is whole where its release needs that.",
    remedy="Write a whole number.",
)
SCORERS_WITHOUT_LOAD = Rule(
    "scorers-without-load",
    "warning",
    "A router that scores by prefix or adapter scores by load, too.",
    remedy="Add `kv-cache` and `queue` to `scorers`, or leave `scorers` out.",
    source="measured with the pickers 1.2.1, 1.5.0 and llm-d 0.10.0 (docs/routing.md)",
)
UNKNOWN_FIELD = Rule(
    "unknown-field",
    "error",
    "A picker configuration has known fields only: the picker refuses others.",
    remedy="Correct the spelling.",
)
