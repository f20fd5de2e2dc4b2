"""Rules that all importers share."""

from fusioninfer_pulumi.plugins.importers import Rule

DEFAULT_CHOSEN = Rule("default-chosen")
DOCUMENT_UNUSED = Rule("document-unused")
FIELD_INVALID = Rule("field-invalid")
FIELD_LEFT_OUT = Rule("field-left-out")
FIELD_TRANSLATED = Rule("field-translated")
FIELD_UNSUPPORTED = Rule("field-unsupported")
REFERENCE_MISSING = Rule("reference-missing")
SHELL_EXPANSION_UNSUPPORTED = Rule("shell-expansion-unsupported")
