"""Types of fields: counts, strings, labels, amounts, On and Off, JSON and Kubernetes' objects."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fusioninfer_pulumi.api.validation_errors import raise_findings, rule_error, string_format
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Location, error, quote_value
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.kube.pulumi_outputs import is_output, output_paths
from fusioninfer_pulumi.kube.typed_args import DuplicateFieldError, to_kubernetes
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_KEY,
    INPUT_TOO_LARGE,
    INVALID_FORMAT,
    OUTPUT_NOT_ALLOWED,
    WRONG_TYPE,
)
from fusioninfer_pulumi.schemas.kind_schema import RESOURCES, Part
from fusioninfer_pulumi.schemas.schema_check import MAX_DEPTH, is_json_scalar, part_findings

#: Largest count of replicas, nodes or list items; etcd cannot store the objects of more replicas.
MAX_COUNT = 10_000
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

# Counts and ports

#: Number of replicas or nodes, from 0; `true`, `"2"` and `1.5` are rejected.
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Port = Annotated[int, Field(ge=1, le=65535)]

# Strings

#: A string that is not empty.
Text = Annotated[str, StringConstraints(min_length=1)]

#: A part of an object's name that is not the first, such as a role's name; may begin with a digit.
PartName = Annotated[
    str,
    string_format(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "a name of a-z, 0-9 and - that starts and ends with a letter or digit",
        min_length=1,
        max_length=63,
    ),
]

#: A DNS-1035 label that begins the names of objects, such as a service's name.
Name = Annotated[
    str,
    string_format(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "a name of a-z, 0-9 and - that starts with a letter and ends with a letter or digit",
        min_length=1,
        max_length=63,
    ),
]

#: Name of an object (DNS-1123 subdomain).
ObjectName = Annotated[
    str,
    string_format(
        r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        "a name of at most 253 of a-z, 0-9, - and . that starts and ends with a letter or digit",
    ),
]

#: A web address.
WebAddress = Annotated[
    str, string_format(r"^https?://\S+$", "an address that starts with http:// or https://")
]

#: Key in the JSON Schema of fields whose value may be a pulumi Output.
OUTPUT_MARK = "x-output"


def _or_output(field_type: Any) -> GetPydanticSchema:
    """Return the schema of a field that is only passed through: a `field_type`, or an Output."""

    def validate(value: Any, validate_plain: core_schema.ValidatorFunctionWrapHandler) -> Any:
        return value if is_output(value) else validate_plain(value)

    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(
            validate, handler.generate_schema(field_type)
        ),
        lambda core, handler: {**handler(core), OUTPUT_MARK: True},
    )


#: A string that may be a pulumi Output.
StringOrOutput = Annotated[Any, _or_output(str)]
#: A string that is not empty, or a pulumi Output.
TextOrOutput = Annotated[Any, _or_output(Text)]
#: Name of an object, or a pulumi Output.
ObjectNameOrOutput = Annotated[Any, _or_output(ObjectName)]
#: A DNS label (RFC 1123), such as the name of a namespace.
DnsLabel = Annotated[
    str,
    string_format(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "a DNS label (a-z 0-9 -, at most 63)"),
]
#: A web address, or a pulumi Output.
WebAddressOrOutput = Annotated[Any, _or_output(WebAddress)]
#: A namespace, which may be a pulumi Output.
Namespace = Annotated[Any, _or_output(DnsLabel)]

# Labels and annotations

# Without this schema, pydantic renders a key's pattern as `patternProperties`.
_KEY_SCHEMA = WithJsonSchema({"type": "string"})
#: The key of a label or annotation.
LabelKey = Annotated[
    str,
    string_format(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
        "a Kubernetes label or annotation key (A-Z a-z 0-9 - _ ., with an optional domain and /)",
        max_length=317,
    ),
    _KEY_SCHEMA,
]
LabelValue = Annotated[
    str,
    string_format(
        r"^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$",
        "a label value (at most 63 of A-Z a-z 0-9 - _ .)",
    ),
]
LabelMap = dict[LabelKey, LabelValue]
#: Labels whose values may be pulumi Outputs.
LabelMapOrOutput = dict[LabelKey, Annotated[Any, _or_output(LabelValue)]]
AnnotationMap = dict[LabelKey, StringOrOutput]
_AlertLabel = string_format(
    r"^[a-zA-Z_][a-zA-Z0-9_]*$", "a Prometheus label name (letters, digits and _)"
)
#: Labels of Prometheus, whose values are any text.
AlertLabelMap = dict[Annotated[str, _AlertLabel, _KEY_SCHEMA], str]

# Amounts

_PERCENTAGE = re.compile(r"(100|[1-9]?[0-9])%")


def _validate_amount(value: Any, *, description: str, is_whole: bool = False) -> str:
    try:
        amount = quantity.parse(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        amount = None
    is_fraction = amount is not None and amount != amount.to_integral_value()
    if amount is None or amount <= 0 or (is_whole and is_fraction):
        raise rule_error(INVALID_FORMAT, f"must be {description}, got {quote_value(value)}")
    return str(value)


def _validate_duration(value: Any) -> str:
    if isinstance(value, str) and durations.parse_duration(value):
        return value
    message = f"must be a duration above 0 such as 90s, 10m or 1h30m, got {quote_value(value)}"
    raise rule_error(INVALID_FORMAT, message)


def _validate_count_or_percentage(value: Any, *, min_percentage: int) -> Any:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if is_count or (match is not None and int(match[1]) >= min_percentage):
        return value
    raise rule_error(
        INVALID_FORMAT,
        f"must be a count from 0 to {MAX_COUNT} or a percentage from {min_percentage}% to 100%, "
        f"got {quote_value(value)}",
    )


def _count_or_percentage_schema(percentage_pattern: str) -> WithJsonSchema:
    count = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
    return WithJsonSchema({"anyOf": [count, {"type": "string", "pattern": percentage_pattern}]})


#: An amount above 0, in Kubernetes' format.
Quantity = Annotated[
    str,
    PlainValidator(
        partial(_validate_amount, description="an amount above 0 such as 5, 500m or 16Gi")
    ),
    WithJsonSchema({"type": ["string", "number"], "minLength": 1, "exclusiveMinimum": 0}),
]

#: Memory or disk, at least a byte.
Bytes = Annotated[
    str,
    PlainValidator(
        partial(_validate_amount, description="an amount of bytes such as 80Gi", is_whole=True)
    ),
    WithJsonSchema({"type": ["string", "integer"], "minLength": 1, "minimum": 1}),
]

#: A duration above 0, in Kubernetes' format.
Duration = Annotated[
    str,
    PlainValidator(_validate_duration),
    WithJsonSchema({"type": "string", "pattern": r"^([0-9.]+(ns|us|µs|ms|s|m|h))+$"}),
]

#: A count, or a percentage from 1%.
CountOrPercentage = Annotated[
    int | str,
    PlainValidator(partial(_validate_count_or_percentage, min_percentage=1)),
    _count_or_percentage_schema("^(100|[1-9][0-9]?)%$"),
]

#: A count, or a percentage from 0%.
CountOrAnyPercentage = Annotated[
    int | str,
    PlainValidator(partial(_validate_count_or_percentage, min_percentage=0)),
    _count_or_percentage_schema("^(100|[1-9]?[0-9])%$"),
]

# On and Off

_ON_OFF = {True: "On", False: "Off"}
_Choice = TypeVar("_Choice", bound=enum.Enum)


def _replace_boolean(value: Any) -> Any:
    """Return On for true and Off for false, because YAML 1.1 reads unquoted On as true."""
    return _ON_OFF[value] if isinstance(value, bool) else value


def _allow_booleans(core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """Return the JSON Schema for editors, which may also read On and Off as booleans."""
    schema = handler(core)
    choices = handler.resolve_ref_schema(schema)["enum"]
    booleans = [value for value, word in _ON_OFF.items() if word in choices]
    return {"anyOf": [schema, {"enum": booleans}]}


#: `OnOff[SomeEnum]`: a value of the enum. `true` means On and `false` Off, if the enum has them.
OnOff = Annotated[
    _Choice,
    Field(strict=False),
    BeforeValidator(_replace_boolean),
    GetPydanticSchema(get_pydantic_json_schema=_allow_booleans),
]


def _convert_names(value: Any) -> Any:
    try:
        return to_kubernetes(value)
    except DuplicateFieldError as exc:
        message = f"{exc} are the same field; remove one of them"
        raise rule_error(DUPLICATE_KEY, message) from None


#: A part of a pod template: a dictionary with camelCase or snake_case names, or typed args of
#: pulumi_kubernetes.
PodPart = Annotated[dict[str, Any], BeforeValidator(_convert_names)]
#: A Kubernetes pod template (`metadata` and `spec`), with the types of `PodPart`.
PodTemplate = Annotated[
    dict[str, Any],
    BeforeValidator(_convert_names),
    WithJsonSchema(
        {
            "type": "object",
            "description": "A Kubernetes PodTemplateSpec.",
            "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
            "required": ["spec"],
            "additionalProperties": False,
        }
    ),
]


def check_json(location: Location, value: Any, depth: int = 0) -> Iterator[Finding]:
    """Check that a value, apart from Outputs in it, can be serialized to JSON."""
    if depth > MAX_DEPTH:
        yield error(INPUT_TOO_LARGE, location, TOO_DEEP)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from check_json((*location, key), item, depth + 1)
            else:
                message = f"keys must be strings, got {quote_value(key)}; quote it in YAML"
                yield error(WRONG_TYPE, location, message)
    elif isinstance(value, (list, tuple)):
        if len(value) > MAX_COUNT:
            message = f"must have at most {MAX_COUNT} items, got {len(value)}"
            yield error(INPUT_TOO_LARGE, location, message)
            return
        for index, item in enumerate(value):
            yield from check_json((*location, index), item, depth + 1)
    elif not is_json_scalar(value) and not is_output(value):
        yield error(WRONG_TYPE, location, f"must be a JSON value, got {quote_value(value)}")


def check_json_and_reject_outputs(
    location: Location, value: Any, output_keys: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Check like `check_json`, and reject Outputs that are not below a key in `output_keys`."""
    yield from check_json(location, value)
    for path in output_paths(value):
        if not any(key in path for key in output_keys):
            yield error(OUTPUT_NOT_ALLOWED, (*location, *path), OUTPUT_HINT)


# Parts of Kubernetes' objects


def matches_schema(part: Part | None, *, outputs: bool = False) -> AfterValidator:
    """Return a validator of JSON values against the schema of a part of a Kubernetes object.

    If `part` is None, any JSON is valid. If `outputs` is set, the value may contain Outputs.
    """

    def check(value: Any) -> Any:
        findings = [] if part is None else part_findings((), value, part)
        if outputs:
            findings += check_json((), value)
        else:
            findings += check_json_and_reject_outputs((), value)
        raise_findings("part", findings)
        return value

    return AfterValidator(check)


#: Accepts any JSON value without Outputs.
JSON_WITHOUT_OUTPUTS = matches_schema(None)
#: Resource requests and limits of a container.
Resources = Annotated[PodPart, matches_schema(RESOURCES)]
#: Reference of an image, or a pulumi Output.
ImageOrOutput = Annotated[
    Any, _or_output(Annotated[str, string_format(r"^[^ ]+$", "an image reference")])
]
