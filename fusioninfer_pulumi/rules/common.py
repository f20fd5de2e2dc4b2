"""Rules about the form of any input: models, schemas and pods hold them."""

from fusioninfer_pulumi.findings import Rule

FIELD_REQUIRED = Rule(
    "field-required",
    "error",
    "A required field is present.",
    remedy="Add the field.",
)
INVALID_FORMAT = Rule(
    "invalid-format",
    "error",
    "A string has the format of its field.",
    remedy="Write it as the message says.",
)
INVALID_QUANTITY = Rule(
    "invalid-quantity",
    "error",
    "An amount is a Kubernetes quantity.",
    remedy="Write, for example, `8`, `500m` or `16Gi`.",
    source="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
)
OUT_OF_RANGE = Rule(
    "out-of-range",
    "error",
    "A number is within the bounds of its field.",
    remedy="Choose a number within the bounds.",
)
TOO_LONG = Rule(
    "too-long",
    "error",
    "A string is not longer than its field allows.",
    remedy="Shorten it.",
)
UNKNOWN_KEY = Rule(
    "unknown-key",
    "error",
    "A mapping has no key that is not a field.",
    remedy="Correct the spelling, or remove the key.",
)
UNKNOWN_VALUE = Rule(
    "unknown-value",
    "error",
    "A value is one of those that its field allows.",
    remedy="Choose one of the listed values.",
)
VALUE_EMPTY = Rule(
    "value-empty",
    "error",
    "A required string or list is not empty.",
    remedy="Fill it, or remove the field.",
)
WRONG_TYPE = Rule(
    "wrong-type",
    "error",
    "A value has the type of its field.",
    remedy="Write a value of the type that the message names.",
)
