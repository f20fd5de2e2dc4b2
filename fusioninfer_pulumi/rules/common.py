"""Rules about the form of any input: models, schemas and pods hold them."""

from fusioninfer_pulumi.findings import Rule

FIELD_REQUIRED = Rule(
    "field-required",
    "error",
    "A required field is present, and not empty.",
    remedy="Add the field, or fill it.",
)
OUT_OF_RANGE = Rule(
    "out-of-range",
    ("error", "warning"),
    "A number is within the bounds that its field has, or that other fields set.",
    remedy="Choose a number within the bounds.",
)
RELEASE_WITHOUT_FEATURE = Rule(
    "release-without-feature",
    ("error", "warning", "info"),
    "The release of the image has what is asked of it.",
    remedy="Use a newer image, or leave the feature out.",
)
UNKNOWN_VALUE = Rule(
    "unknown-value",
    ("error", "warning"),
    "A value is one of those that its field allows, or that are known.",
    remedy="Choose one of the listed values.",
)


UNKNOWN_KEY = Rule(
    "unknown-key",
    "error",
    "A mapping has no key that is not a field.",
    remedy="Correct the spelling, or remove the key.",
)

CLUSTER_MUST_HAVE = Rule(
    "cluster-must-have",
    "info",
    "The cluster has the release, plug-in or feature gate that this needs.",
    remedy="Check it.",
)
ENGINE_WITHOUT_METRICS = Rule(
    "engine-without-metrics",
    ("error", "warning", "info"),
    "An engine serves no metrics that the endpoint picker or monitoring needs.",
    remedy="Turn the engine's metrics on; for the picker, or use no load scorers and flow control.",
)
DUPLICATE_KEY = Rule(
    "duplicate-key",
    "error",
    "A key stands once in a mapping, in snake_case or camelCase.",
    remedy="Remove one of the two.",
    source="https://yaml.org/spec/1.2.2/#nodes",
)
DUPLICATE_NAME = Rule(
    "duplicate-name",
    "error",
    "Items of a list that have a name or another key have different ones.",
    remedy="Rename or remove one of the two.",
)
FIELD_OUT_OF_PLACE = Rule(
    "field-out-of-place",
    "error",
    "A field stands beside the settings, and in the kind of role, that it belongs to.",
    remedy="Remove the field, or change what the message names.",
)
FIELD_WITHOUT_EFFECT = Rule(
    "field-without-effect",
    ("error", "warning"),
    "A field has an effect beside the others.",
    remedy="Remove it, or set what the message names.",
)
INPUT_TOO_LARGE = Rule(
    "input-too-large",
    "error",
    "A manifest has at most 16 MiB, and no more values and levels than any manifest needs.",
    remedy="Split the file, or flatten it.",
)
INVALID_FORMAT = Rule(
    "invalid-format",
    "error",
    "A string or an amount has the format of its field.",
    remedy="Write it as the message says.",
)
NAME_TOO_LONG = Rule(
    "name-too-long",
    "error",
    "Names of objects are not too long.",
    remedy="Shorten the name of the service.",
)
OUTPUT_NOT_ALLOWED = Rule(
    "output-not-allowed",
    "error",
    "A value that is read at preview is plain, not a `pulumi.Output`.",
    remedy="Read it from `pulumi.Config` or another plain source.",
    source="docs/architecture.md",
)
PARALLELISM_NOT_DIVISIBLE = Rule(
    "parallelism-not-divisible",
    "error",
    "Sizes that have to divide each other do: ranks and nodes, parallel sizes, subgroups.",
    remedy="Change one of the sizes.",
)
SET_BY_LIBRARY = Rule(
    "set-by-library",
    "error",
    "What the library sets is not written by users: labels, annotations, flags, names.",
    remedy="Remove it, or choose another name.",
)
STATED_TWICE = Rule(
    "stated-twice",
    "error",
    "A setting stands in one place: in its field, in the arguments, or in the pod template.",
    remedy="Keep the one that is meant.",
)
WRONG_TYPE = Rule(
    "wrong-type",
    ("error", "warning"),
    "A value has the type of its field.",
    remedy="Write a value of the type that the message names.",
)
