"""Rules that several modules of the package check."""

from fusioninfer_pulumi.findings import Rule

OPTION_OUT_OF_PLACE = Rule(
    "option-out-of-place",
    "error",
    "An option stands beside the input that it belongs to.",
    remedy="Remove it, or give the other input.",
)

UNREADABLE_REVISION = Rule(
    "unreadable-revision",
    ("error", "warning"),
    "The git revision of `--base` can be read.",
    remedy="Check the name of the revision, and fetch it.",
)
