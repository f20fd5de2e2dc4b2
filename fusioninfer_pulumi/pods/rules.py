"""Rules of pods that several modules check."""

from fusioninfer_pulumi.findings import Rule

ARGUMENTS_UNREADABLE = Rule(
    "arguments-unreadable",
    ("warning", "error", "info"),
    "Arguments that are compared with fields and pods can be read.",
    remedy="Write them in plain text; a configuration of KV transfer, in valid JSON.",
)

PODS_DERIVED = Rule(
    "pods-derived",
    "info",
    "What the library makes of a role follows from its fields.",
    remedy="Nothing.",
)

COMMAND_NOT_EDITABLE = Rule(
    "command-not-editable",
    "error",
    "The library can change the engine's command line, for arguments and for several nodes.",
    remedy="Write `command` as a list, or all of it yourself with `launcher: none`.",
)
ENGINE_UNKNOWN = Rule(
    "engine-unknown",
    ("error", "warning", "info"),
    "The program of a container is known.",
    remedy="Write its command, as the message shows.",
)
TAKEN_BY_TEMPLATE = Rule(
    "taken-by-template",
    ("error", "warning"),
    "What a field adds is not in the template already.",
    remedy="Remove it from the template, or leave out the field.",
)
