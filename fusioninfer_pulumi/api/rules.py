"""Rules of what users write that several models hold."""

from fusioninfer_pulumi.findings import Rule

FIELD_GIVEN_TWICE = Rule(
    "field-given-twice",
    "error",
    "A field is written once, not in snake_case and camelCase.",
    remedy="Remove one of the two.",
)
FIELD_WITHOUT_EFFECT = Rule(
    "field-without-effect",
    "error",
    "A field has the field beside it without which it does nothing.",
    remedy="Remove it, or enable what it belongs to.",
)
FIELDS_EXCLUDE_EACH_OTHER = Rule(
    "fields-exclude-each-other",
    "error",
    "Two fields that say the same are not both set.",
    remedy="Keep one of them.",
)
INVALID_DURATION = Rule(
    "invalid-duration",
    "error",
    "A duration is written as Kubernetes and Go write it.",
    remedy="Write, for example, `30m` or `2h`.",
)
INVALID_IMAGE = Rule(
    "invalid-image",
    "error",
    "An image is a valid reference.",
    remedy="Write `registry/name:tag` or `registry/name@digest`.",
)
INVALID_LABEL = Rule(
    "invalid-label",
    "error",
    "A label value is valid for Kubernetes.",
    remedy="Use at most 63 letters, digits, `-`, `_` and `.`.",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/",
)
INVALID_LABEL_KEY = Rule(
    "invalid-label-key",
    "error",
    "A label or annotation key is valid for Kubernetes.",
    remedy="Write `name` or `prefix/name`.",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/",
)
KEY_NOT_A_STRING = Rule(
    "key-not-a-string",
    "error",
    "Keys of mappings are strings.",
    remedy="Quote the key.",
)
LABEL_RESERVED = Rule(
    "label-reserved",
    "error",
    "Labels that are set here are not written by users.",
    remedy="Remove the label.",
)
LISTENER_WITHOUT_CERTIFICATE = Rule(
    "listener-without-certificate",
    "error",
    "A listener that ends TLS has a certificate.",
    remedy="Set `tls.certificateRefs`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
NESTED_TOO_DEEP = Rule(
    "nested-too-deep",
    "error",
    "Data is not nested deeper than any manifest needs.",
    remedy="Flatten it.",
)
NOT_JSON = Rule(
    "not-json",
    "error",
    "A free value is plain data: what JSON can hold.",
    remedy="Replace objects by mappings, lists, strings and numbers.",
)
NUMBER_NOT_FINITE = Rule(
    "number-not-finite",
    "error",
    "A number is finite.",
    remedy="Replace `.inf` or `.nan` by a number.",
)
ONE_CLAIM_SOURCE = Rule(
    "one-claim-source",
    "error",
    "A device claim has exactly one source.",
    remedy="Give one of `deviceClassName`, `template` and `spec`, or whichever the message lists.",
)
OUTPUT_NOT_ALLOWED = Rule(
    "output-not-allowed",
    "error",
    "A value that is read at preview is plain, not a `pulumi.Output`.",
    remedy="Read it from `pulumi.Config` or another plain source.",
    source="docs/architecture.md",
)
THRESHOLD_WITHOUT_DISAGGREGATION = Rule(
    "threshold-without-disaggregation",
    "error",
    "`threshold` belongs to the strategy `pd-disaggregation`.",
    remedy="Remove it, or choose that strategy.",
)
