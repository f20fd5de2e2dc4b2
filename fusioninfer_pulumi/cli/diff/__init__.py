"""Comparison of two lists of manifests, with the effects on running pods."""

from fusioninfer_pulumi.cli.diff._records import Difference, FieldChange, RoleEffect
from fusioninfer_pulumi.cli.diff.compare import compare
from fusioninfer_pulumi.cli.diff.markdown_and_json import to_json, to_markdown

__all__ = ["Difference", "FieldChange", "RoleEffect", "compare", "to_json", "to_markdown"]
