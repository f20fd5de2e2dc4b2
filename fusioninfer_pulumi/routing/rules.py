"""Rules of routing that several modules check."""

from fusioninfer_pulumi.findings import Rule

NAMESPACE_OUTPUT_IN_NAME = Rule(
    "namespace-output-in-name",
    "error",
    "The namespace of a ReferenceGrant is plain.",
    remedy="Use a plain value.",
)
