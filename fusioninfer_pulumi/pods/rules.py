"""Rules of pods that several modules check."""

from fusioninfer_pulumi.findings import Rule

COMMAND_NOT_EDITABLE = Rule(
    "command-not-editable",
    "error",
    "Arguments can be added to the engine's command line.",
    remedy="Write it as a list, or add the arguments yourself.",
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
SOURCES_NOT_ONE = Rule(
    "sources-not-one",
    "error",
    "A variable, a probe and a volume have one source or handler.",
    remedy="Keep one.",
)
