"""Rules of what users write that several models hold."""

from fusioninfer_pulumi.findings import Rule

FIELDS_EXCLUDE_EACH_OTHER = Rule(
    "fields-exclude-each-other",
    "error",
    "Of fields that exclude each other one is set.",
    remedy="Keep one of them.",
)
NAME_NOT_FOUND = Rule(
    "name-not-found",
    "error",
    "What is named by its name stands in the same manifest.",
    remedy="Correct the name, or add what it names.",
)

INVALID_IMAGE = Rule(
    "invalid-image",
    "error",
    "An image is a valid reference.",
    remedy="Write `registry/name:tag` or `registry/name@digest`.",
)
LISTENER_WITHOUT_CERTIFICATE = Rule(
    "listener-without-certificate",
    "error",
    "A listener that ends TLS has a certificate.",
    remedy="Set `tls.certificateRefs`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
THRESHOLD_WITHOUT_DISAGGREGATION = Rule(
    "threshold-without-disaggregation",
    "error",
    "`threshold` belongs to the strategy `pd-disaggregation`.",
    remedy="Remove it, or choose that strategy.",
)
