"""Rules of what users write that several models hold."""

from fusioninfer_pulumi.findings import Rule

FIELDS_EXCLUDE_EACH_OTHER = Rule(
    "fields-exclude-each-other",
    "error",
    "Of fields that exclude each other one is set.",
    remedy="Keep one of them.",
)
NAME_NOT_FOUND = Rule(
    "name-not-found",
    "error",
    "What is named by its name stands in the same manifest.",
    remedy="Correct the name, or add what it names.",
)
