"""What changes between two lists of manifests, and what that does to running pods.

No Pulumi, no cluster: `compare` reads plain Kubernetes objects of any origin. `to_markdown` and
`to_json` write what it found, `text.print_difference` prints it at a terminal.
"""

from fusioninfer_pulumi.cli.diff._records import (
    Difference,
    EngineChange,
    FieldChange,
    ObjectChange,
    RoleEffect,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.compare import compare
from fusioninfer_pulumi.cli.diff.formats import to_json, to_markdown

__all__ = [
    "Difference",
    "EngineChange",
    "FieldChange",
    "ObjectChange",
    "RoleEffect",
    "ServiceTotals",
    "compare",
    "to_json",
    "to_markdown",
]
