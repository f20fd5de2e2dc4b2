"""Rules of endpoint pickers that several modules check."""

from fusioninfer_pulumi.findings import Rule

PICKER_CONFIG_INVALID = Rule("picker-config-invalid")
PLUGIN_NOT_REGISTERED = Rule("plugin-not-registered")

FLAG_UNKNOWN = Rule("flag-unknown")
PICKER_FAMILY_UNKNOWN = Rule("picker-family-unknown")
SCORERS_WITHOUT_LOAD = Rule("scorers-without-load")
