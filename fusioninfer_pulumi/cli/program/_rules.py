"""Rules of Pulumi programs; listed without importing Pulumi."""

from fusioninfer_pulumi.findings import Rule

PROGRAM_ENDED = Rule(
    "program-ended",
    "error",
    "The program returns within `--timeout`, and does not end its process.",
    remedy="See where it waits or ends.",
)
PROGRAM_MESSAGE = Rule(
    "program-message",
    "warning",
    "The program logs neither warnings nor errors.",
    remedy="See the message.",
)
UNKNOWN_WITHOUT_PULUMI = Rule(
    "unknown-without-pulumi",
    "warning",
    "Everything that the program's objects depend on is known without the Pulumi engine.",
    remedy="Use `pulumi preview`, or pass the value as config.",
)

PROGRAM_WITHOUT_SERVICE = Rule(
    "program-without-service",
    "warning",
    "A program that is checked or planned makes an InferenceService.",
    remedy="Make one, or check another project; a program that calls `sys.exit` ends there.",
)
PROJECT_FILE_INVALID = Rule(
    "project-file-invalid",
    "error",
    "The files of a Pulumi project are there and valid, and its program is one in Python.",
    remedy="Correct the file as the message says.",
)

PROGRAM_FAILED = Rule(
    "program-failed",
    "error",
    "The program runs to its end.",
    remedy="Correct the program; the lines below the message are yours.",
)
STACK_NOT_CHOSEN = Rule(
    "stack-not-chosen",
    "warning",
    "Where a project has several stacks, one is chosen.",
    remedy="Give `--stack`.",
)
