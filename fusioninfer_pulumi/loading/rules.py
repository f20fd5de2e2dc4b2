"""Rules of input that several modules check."""

from fusioninfer_pulumi.findings import Rule

INPUT_TOO_LARGE = Rule(
    "input-too-large",
    "error",
    "A manifest has at most 16 MiB.",
    remedy="Split it.",
)
NOT_UTF_8 = Rule(
    "not-utf-8",
    "error",
    "A file is UTF-8 text.",
    remedy="Convert the file.",
)
WRONG_API_VERSION = Rule(
    "wrong-api-version",
    "error",
    "`apiVersion` is that of the kind.",
    remedy="Write the version that the message names.",
)
WRONG_KIND = Rule(
    "wrong-kind",
    "error",
    "`kind` is one that is read.",
    remedy="Write the kind that the message names.",
)
