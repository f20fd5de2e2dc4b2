"""Rules about labels, annotations and selectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.rules import INVALID_LABEL, INVALID_LABEL_KEY
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import contains_output, is_output
from fusioninfer_pulumi.pods.rules import INVALID_SECURITY_PROFILE
from fusioninfer_pulumi.pods.validation._values import (
    LABEL_VALUE,
    QUALIFIED_NAME,
    Format,
    each,
    fields,
    given,
    known,
    listed,
    text,
)
from fusioninfer_pulumi.rules.common import UNKNOWN_VALUE

VALUES_MISSING = Rule(
    "values-missing",
    "error",
    "Operators that need values have some.",
    remedy="Add `values`.",
    source="Kubernetes API validation",
)
VALUES_WITHOUT_EFFECT = Rule(
    "values-without-effect",
    "error",
    "Operators without values have none.",
    remedy="Remove `values`.",
    source="Kubernetes API validation",
)
INVALID_DELETION_COST = Rule(
    "invalid-deletion-cost",
    "error",
    "The deletion cost of a pod is a whole number.",
    remedy="Correct the annotation.",
    source="Kubernetes API validation",
)
MIRROR_POD = Rule(
    "mirror-pod",
    "error",
    "A pod has no annotation of mirror pods.",
    remedy="Remove it.",
    source="Kubernetes API validation",
)
ANNOTATIONS_TOO_LARGE = Rule(
    "annotations-too-large",
    "error",
    "Annotations have at most 256 KiB.",
    remedy="Shorten them.",
    source="Kubernetes API validation",
)
PROFILE_OF_NO_CONTAINER = Rule(
    "profile-of-no-container",
    "error",
    "An annotation with a profile names a container of the pod.",
    remedy="Correct the name in the annotation.",
    source="Kubernetes API validation",
)

_ANNOTATION_BYTES = 256 * 1024
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
)
_MIRROR = "kubernetes.io/config.mirror"
#: Without a plus or leading zeros (core/helper, `validFirstDigit`).
_INTEGER = Format("a whole number", "-[0-9]{1,20}|0|[1-9][0-9]{0,20}")


def label_key(at: Location, value: Any) -> Iterator[Finding]:
    """The key of a label."""
    if isinstance(value, str) and not QUALIFIED_NAME.fits(value):
        message = f"{shown(value)} is no valid Kubernetes label or annotation key"
        yield error(INVALID_LABEL_KEY, at, message)


def label_value(at: Location, value: Any) -> Iterator[Finding]:
    """The value of a label."""
    if isinstance(value, str) and not LABEL_VALUE.fits(value):
        message = f"must be {LABEL_VALUE.kind}, got {shown(value)}"
        yield error(INVALID_LABEL, at, message)


def label_map(at: Location, value: Any) -> Iterator[Finding]:
    """Labels with their values."""
    for key, held in known(value).items():
        here = (*at, str(key))
        yield from label_key(here, key)
        yield from label_value(here, held)


def _requirement(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
    yield from operator_findings(at, value, ("In", "NotIn"), ("Exists", "DoesNotExist"))


def operator_findings(
    at: Location,
    requirement: Mapping[str, Any],
    comparing: tuple[str, ...],
    existing: tuple[str, ...],
    single: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Checks the operator of a requirement, and how many values it has."""
    operator, values = requirement.get("operator"), requirement.get("values")
    if is_output(operator):
        return
    count = None if is_output(values) else len(listed(values))
    if operator in comparing:
        if count == 0:
            yield error(VALUES_MISSING, (*at, "values"), f"{operator} needs a value")
    elif operator in existing:
        if count:
            message = f"{operator} takes no values; remove them"
            yield error(VALUES_WITHOUT_EFFECT, (*at, "values"), message)
    elif operator in single:
        if count is not None and count != 1:
            yield error(VALUES_MISSING, (*at, "values"), f"{operator} needs exactly one value")
    else:
        words = ", ".join((*comparing, *existing, *single))
        message = f"must be one of {words}, got {shown(operator)}"
        yield error(UNKNOWN_VALUE, (*at, "operator"), message)


#: A selector of labels (apimachinery, `ValidateLabelSelector`).
label_selector = fields(
    {
        "matchLabels": label_map,
        "matchExpressions": each(
            fields({"key": label_key, "values": each(label_value)}, _requirement)
        ),
    }
)


def annotation_findings(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks the annotations of a pod template, and those that mean something to Kubernetes."""
    annotations = known(known(template.get("metadata")).get("annotations"))
    at = (*at, "metadata", "annotations")
    for key, value in annotations.items():
        if not isinstance(key, str):
            continue
        here = (*at, key)
        yield from label_key(here, key.lower())
        if key == _DELETION_COST and isinstance(value, str) and not _is_int32(value):
            message = f"must be a whole number of 32 bits, got {shown(value)}"
            yield error(INVALID_DELETION_COST, here, message)
        elif key == _MIRROR and not given(known(template.get("spec")).get("nodeName")):
            yield error(MIRROR_POD, here, "is of pods that a node starts by itself; remove it")
        elif key.startswith(_APP_ARMOR):
            yield from _app_armor(here, key[len(_APP_ARMOR) :], value, template)
        elif key == _SECCOMP[0] or key.startswith(_SECCOMP[1]):
            yield from _seccomp(here, value)
    yield from size_findings(at, annotations)


def size_findings(at: Location, annotations: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks how much the annotations of an object hold."""
    size = sum(len(f"{key}{value}".encode(errors="replace")) for key, value in annotations.items())
    if size > _ANNOTATION_BYTES and not contains_output(annotations):
        message = f"have {size} bytes, at most {_ANNOTATION_BYTES} are allowed"
        yield error(ANNOTATIONS_TOO_LARGE, at, message)


def _is_int32(value: str) -> bool:
    return _INTEGER.fits(value) and -(2**31) <= int(value) < 2**31


def _app_armor(
    at: Location, container: str, profile: Any, template: Mapping[str, Any]
) -> Iterator[Finding]:
    spec = known(template.get("spec"))
    names = [
        text(known(each).get("name"))
        for key in ("containers", "initContainers")
        for each in listed(spec.get(key))
    ]
    if container not in names:
        yield error(PROFILE_OF_NO_CONTAINER, at, f"there is no container {shown(container)}")
    words = ("", "runtime/default", "unconfined")
    if isinstance(profile, str) and not (profile in words or profile.startswith("localhost/")):
        message = f"must be runtime/default, unconfined or localhost/NAME, got {shown(profile)}"
        yield error(INVALID_SECURITY_PROFILE, at, message)


def _seccomp(at: Location, profile: Any) -> Iterator[Finding]:
    if not isinstance(profile, str):
        return
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if not profile.startswith("localhost/"):
        message = f"must be runtime/default, unconfined or localhost/PATH, got {shown(profile)}"
        yield error(INVALID_SECURITY_PROFILE, at, message)
