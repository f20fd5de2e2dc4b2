"""Rules of endpoint pickers that several modules check."""

from fusioninfer_pulumi.findings import Rule

PICKER_CONFIG_INVALID = Rule(
    "picker-config-invalid",
    "error",
    "An endpoint picker's configuration is not an EndpointPickerConfig in YAML.",
    remedy="Correct it as the message says; remove it to use a strategy.",
)
PLUGIN_NOT_REGISTERED = Rule(
    "plugin-not-registered",
    ("error", "warning"),
    "The endpoint picker's release does not have the plugin.",
    remedy="Correct its type, or use another release.",
)

FLAG_UNKNOWN = Rule(
    "flag-unknown",
    ("error", "warning"),
    "The release of the picker or sidecar takes the flag.",
    remedy="Correct or remove it.",
)
PICKER_FAMILY_UNKNOWN = Rule(
    "picker-family-unknown",
    ("error", "warning"),
    "The release of the picker's image is known, or `family` says a known one.",
    remedy="Use a known image, or set `family`.",
)
SCORERS_WITHOUT_LOAD = Rule(
    "scorers-without-load",
    "warning",
    "A router that scores by prefix or adapter scores by load, too.",
    remedy="Add `kv-cache` and `queue` to `scorers`, or leave `scorers` out.",
    source="measured with the pickers 1.2.1, 1.5.0 and llm-d 0.10.0 (docs/routing.md)",
)
