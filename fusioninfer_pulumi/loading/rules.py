"""Rules of input that several modules check."""

from fusioninfer_pulumi.findings import Rule

WRONG_KIND = Rule("wrong-kind")

NO_SERVICE = Rule("no-service")

EMPTY_INPUT = Rule("empty-input")
UNREADABLE_FILE = Rule("unreadable-file")
