"""Rules about the form of any input: models, schemas and pods hold them."""

from fusioninfer_pulumi.findings import Rule

FIELD_REQUIRED = Rule("field-required")
OUT_OF_RANGE = Rule("out-of-range")
RELEASE_WITHOUT_FEATURE = Rule("release-without-feature")
UNKNOWN_VALUE = Rule("unknown-value")


UNKNOWN_KEY = Rule("unknown-key")

CLUSTER_MUST_HAVE = Rule("cluster-must-have")
ENGINE_WITHOUT_METRICS = Rule("engine-without-metrics")
DUPLICATE_KEY = Rule("duplicate-key")
DUPLICATE_NAME = Rule("duplicate-name")
FIELD_OUT_OF_PLACE = Rule("field-out-of-place")
FIELD_WITHOUT_EFFECT = Rule("field-without-effect")
INPUT_TOO_LARGE = Rule("input-too-large")
INVALID_FORMAT = Rule("invalid-format")
NAME_TOO_LONG = Rule("name-too-long")
OUTPUT_NOT_ALLOWED = Rule("output-not-allowed")
PARALLELISM_NOT_DIVISIBLE = Rule("parallelism-not-divisible")
SET_BY_LIBRARY = Rule("set-by-library")
STATED_TWICE = Rule("stated-twice")
WRONG_TYPE = Rule("wrong-type")
FIELDS_EXCLUDE_EACH_OTHER = Rule("fields-exclude-each-other")
NAME_NOT_FOUND = Rule("name-not-found")
ARGUMENTS_UNREADABLE = Rule("arguments-unreadable")

PODS_DERIVED = Rule("pods-derived")

COMMAND_NOT_EDITABLE = Rule("command-not-editable")
ENGINE_UNKNOWN = Rule("engine-unknown")
TAKEN_BY_TEMPLATE = Rule("taken-by-template")
CRD_NOT_INSTALLED = Rule("crd-not-installed")
RELEASE_NOT_SUPPORTED = Rule("release-not-supported")
RELEASE_UNKNOWN = Rule("release-unknown")
CLUSTER_NOT_CHECKED = Rule("cluster-not-checked")
FEATURE_GATE_OFF_BY_DEFAULT = Rule("feature-gate-off-by-default")
LWS_GANG_PROVIDER_ON = Rule("lws-gang-provider-on")
NAMED_OBJECT_MISSING = Rule("named-object-missing")
STATEFULSET_KEEPS_BROKEN_PODS = Rule("statefulset-keeps-broken-pods")
