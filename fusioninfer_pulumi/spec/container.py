"""What a container of a pod template must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi import quantity
from fusioninfer_pulumi.findings import LIFT, Location, shown
from fusioninfer_pulumi.outputs import contains_output, is_output
from fusioninfer_pulumi.spec.problem import Problem
from fusioninfer_pulumi.spec.shapes import choice, items, mapping, port_name, text, wanted, whole

# What every release takes; a release before 1.32 takes less.
_VARIABLE = text("printable ASCII without =", r"[ -<>-~]*")
_PORT = mapping(
    {
        "name": port_name,
        "protocol": choice("TCP", "UDP", "SCTP", plain=True),
        "hostPort": whole(0, 65535),
        "hostIP": text(),
    }
)
_CLAIMS = items(mapping({"name": text()}, "name"))
_DNS_1123_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def container_problems(at: Location, container: Mapping[str, Any]) -> Iterator[Problem]:
    """Checks one container.

    Args:
        at: Where it stands.
        container: The container as in a pod template.

    Yields:
        Every problem.
    """
    name = container.get("name")
    if not isinstance(name, str) or _DNS_1123_LABEL.fullmatch(name) is None:
        yield Problem((*at, "name"), wanted(name, "a DNS label (a-z 0-9 -, at most 63)"), name)
    image = container.get("image")
    if not is_output(image) and (not isinstance(image, str) or not image or " " in image):
        yield Problem((*at, "image"), wanted(image, "an image reference"), image)
    for key in ("command", "args"):
        yield from _strings((*at, key), container.get(key))
    yield from _env((*at, "env"), container.get("env"))
    yield from _ports((*at, "ports"), container.get("ports"))
    yield from resource_problems((*at, "resources"), container.get("resources"))


def is_extended(resource: str) -> bool:
    """Tells whether a resource name is an extended resource (a device, not cpu or memory)."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def _strings(at: Location, value: Any) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(at, wanted(value, "a list of strings"), value)
        return
    for index, item in enumerate(value):
        if not isinstance(item, str) and not is_output(item):
            yield Problem(
                (*at, index), f"must be a string, got {shown(item)}; quote it in YAML", item
            )


def _env(at: Location, value: Any) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(at, wanted(value, "a list"), value)
        return
    for index, item in enumerate(value):
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            yield Problem((*at, index), "must be a mapping with a name")
            continue
        if not item["name"]:
            yield Problem((*at, index, "name"), "must not be empty")
        yield from _VARIABLE((*at, index, "name"), item["name"])
        held = item.get("value")
        if held is not None and not isinstance(held, str) and not is_output(held):
            yield Problem(
                (*at, index, "value"), f"must be a string, got {shown(held)}; quote it in YAML"
            )


def _ports(at: Location, value: Any) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(at, wanted(value, "a list"), value)
        return
    names: list[str] = []
    for index, item in enumerate(value):
        number = item.get("containerPort") if isinstance(item, Mapping) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 65536:
            yield Problem(
                (*at, index, "containerPort"), wanted(number, "an integer from 1 to 65535"), number
            )
        if not isinstance(item, Mapping):
            continue
        yield from _PORT((*at, index), item)
        name = item.get("name")
        if isinstance(name, str) and name:
            if name in names:
                yield Problem(
                    (*at, index, "name"), f"{shown(name)} names two ports of the container", name
                )
            names.append(name)


def resource_problems(at: Location, resources: Any) -> Iterator[Problem]:
    """Checks the limits and requests of a container or of a pod."""
    if resources is None:
        return
    if not isinstance(resources, Mapping):
        yield Problem(at, wanted(resources, "a mapping"), resources)
        return
    yield from _CLAIMS((*at, "claims"), resources.get("claims"))
    held: dict[str, Mapping[str, Any]] = {}
    for key in ("limits", "requests"):
        amounts = resources.get(key)
        yield from amount_problems((*at, key), amounts)
        if isinstance(amounts, Mapping):
            held[key] = amounts
    limits, requests = held.get("limits", {}), held.get("requests", {})
    for name, amount in requests.items():
        if is_extended(str(name)) and not contains_output(amount):
            limit = limits.get(name)
            if limit is None:
                yield Problem((*at, "requests", name), "needs the same amount in limits")
            elif not _same_amount(limit, amount):
                yield Problem(
                    (*at, "requests", name),
                    f"must equal limits[{name}] ({limit}), got {shown(amount)}",
                )


def _same_amount(one: Any, other: Any) -> bool:
    if is_output(one):
        return True  # was reported by itself, like what is no quantity
    try:
        return quantity.parse(one) == quantity.parse(other)
    except ValueError:
        return True


def amount_problems(at: Location, amounts: Any) -> Iterator[Problem]:
    """Checks a mapping of resource names to quantities."""
    if amounts is not None and not isinstance(amounts, Mapping):
        yield Problem(at, wanted(amounts, "a mapping"), amounts)
        return
    for name, amount in (amounts or {}).items():
        yield from _amount((*at, str(name)), str(name), amount)


def _amount(at: Location, name: str, amount: Any) -> Iterator[Problem]:
    if is_output(amount):
        yield Problem(at, LIFT, amount)
        return
    if isinstance(amount, bool) or not isinstance(amount, (str, int, float)):
        yield Problem(at, wanted(amount, "a Kubernetes quantity"), amount)
        return
    try:
        parsed = quantity.parse(amount)
    except ValueError:
        yield Problem(
            at, f"must be a Kubernetes quantity such as 8, 500m or 16Gi, got {shown(amount)}"
        )
        return
    if parsed < 0:
        yield Problem(at, f"must be at least 0, got {shown(amount)}", amount)
    elif is_extended(name) and parsed != parsed.to_integral_value():
        yield Problem(at, f"must be a whole number of devices, got {shown(amount)}", amount)
