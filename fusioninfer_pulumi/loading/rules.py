"""Rules of input that several modules check."""

from fusioninfer_pulumi.findings import Rule

WRONG_KIND = Rule(
    "wrong-kind",
    "error",
    "`apiVersion` and `kind` are ones that are read.",
    remedy="Write what the message names, or apply the object beside the services.",
)

NO_SERVICE = Rule(
    "no-service",
    ("warning", "info"),
    "What is no service is left out.",
    remedy="Apply it beside the services.",
)

EMPTY_INPUT = Rule(
    "empty-input",
    "error",
    "An input holds a manifest or a Pulumi project.",
    remedy="Give another file or folder.",
)
UNREADABLE_FILE = Rule(
    "unreadable-file",
    "error",
    "The file can be read, and is UTF-8 text.",
    remedy="Check the path and its rights, or convert the file.",
)
