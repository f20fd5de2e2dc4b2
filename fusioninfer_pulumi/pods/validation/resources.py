"""Rules about requests and limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown, similar
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.pods.rules import NEGATIVE_QUANTITY
from fusioninfer_pulumi.pods.validation._values import (
    DNS_LABEL,
    QUALIFIED_NAME,
    formatted,
    given,
    known,
    mappings,
    text,
)
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED

CLAIMS_OF_POD_RESOURCES = Rule(
    "claims-of-pod-resources",
    "error",
    "Claims stand at containers, not in resources of the pod.",
    remedy="Move them.",
    source="Kubernetes API validation",
)
POD_REQUEST_BELOW_CONTAINERS = Rule(
    "pod-request-below-containers",
    "error",
    "The pod's request is at least that of its containers.",
    remedy="Raise it.",
    source="Kubernetes API validation",
)
POD_LIMIT_BELOW_CONTAINERS = Rule(
    "pod-limit-below-containers",
    "error",
    "The pod's limit is at least what its containers request.",
    remedy="Raise it.",
    source="Kubernetes API validation",
)
LIMIT_ABOVE_POD_LIMIT = Rule(
    "limit-above-pod-limit",
    "error",
    "A container's limit is at most the pod's.",
    remedy="Lower it.",
    source="Kubernetes API validation",
)
REQUEST_DIFFERS_FROM_LIMIT = Rule(
    "request-differs-from-limit",
    "error",
    "Requests and limits of an extended resource are equal.",
    remedy="Write the same amount, or `limits` alone.",
    source="https://kubernetes.io/docs/tasks/configure-pod-container/extended-resource/",
)
REQUEST_ABOVE_LIMIT = Rule(
    "request-above-limit",
    "error",
    "A request is at most its limit.",
    remedy="Lower the request, or raise the limit.",
    source="Kubernetes API validation",
)
LIMIT_MISSING = Rule(
    "limit-missing",
    "error",
    "An extended resource in `requests` is in `limits`, too.",
    remedy="Write the same amount into `limits`.",
    source="https://kubernetes.io/docs/tasks/configure-pod-container/extended-resource/",
)
HUGE_PAGES_ALONE = Rule(
    "huge-pages-alone",
    "error",
    "Huge pages stand beside CPU or memory.",
    remedy="Ask for CPU or memory, too.",
    source="Kubernetes API validation",
)
UNKNOWN_RESOURCE = Rule(
    "unknown-resource",
    "error",
    "A resource is one of Kubernetes', or has a domain.",
    remedy="Correct its name.",
    source="Kubernetes API validation",
)
UNKNOWN_POD_RESOURCE = Rule(
    "unknown-pod-resource",
    "error",
    "Resources of a pod are CPU, memory and huge pages.",
    remedy="Move others to a container.",
    source="Kubernetes API validation",
)
FRACTIONAL_DEVICES = Rule(
    "fractional-devices",
    "error",
    "Devices are requested in whole numbers.",
    remedy="Round the amount.",
    source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
)
INVALID_PAGE_SIZE = Rule(
    "invalid-page-size",
    "error",
    "A size of huge pages is a quantity.",
    remedy="Write, for example, `hugepages-2Mi`.",
    source="Kubernetes API validation",
)
FRACTIONAL_HUGE_PAGES = Rule(
    "fractional-huge-pages",
    "error",
    "Huge pages are asked for in whole pages.",
    remedy="Choose a multiple of the page size.",
    source="Kubernetes API validation",
)
CLAIM_NAMED_TWICE = Rule(
    "claim-named-twice",
    "error",
    "A container names a claim once.",
    remedy="Remove the second one.",
    source="Kubernetes API validation",
)
CLAIM_MISSING = Rule(
    "claim-missing",
    "error",
    "A claim that a container names is the pod's.",
    remedy="Add it to `resourceClaims`.",
    source="Kubernetes API validation",
)

_STANDARD = ("cpu", "memory", "ephemeral-storage")
#: What a pod as a whole may ask for (component-helpers, `SupportedPodLevelResources`).
_OF_PODS = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"
_REQUEST_NAME = formatted(DNS_LABEL)


def container_resources(
    at: Location, resources: Any, claims: Collection[str] | None
) -> Iterator[Finding]:
    """Checks the resources of a container.

    Args:
        at: Where they stand.
        resources: The resources.
        claims: Names of the pod's `resourceClaims`, None where they are not known.
    """
    yield from _requirements(at, known(resources), _container_name)
    yield from _claims((*at, "claims"), known(resources).get("claims"), claims)


def overhead(at: Location, amounts: Any) -> Iterator[Finding]:
    """Checks what a pod needs beside its containers."""
    for name, amount in known(amounts).items():
        yield from _container_name((*at, str(name)), str(name))
        yield from _amount((*at, str(name)), str(name), amount)


def pod_resources(at: Location, spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks the resources of a pod as a whole against those of its containers."""
    resources = known(spec.get("resources"))
    yield from _requirements((*at, "resources"), resources, _pod_name)
    if given(resources.get("claims")):
        message = "has no effect on a pod as a whole; name the claims in its containers"
        yield error(CLAIMS_OF_POD_RESOURCES, (*at, "resources", "claims"), message)
    limits, requests = amounts(resources.get("limits")), amounts(resources.get("requests"))
    asked = _aggregate(spec)
    for name, amount in asked.items():
        if name in requests and amount > requests[name]:
            yield error(
                POD_REQUEST_BELOW_CONTAINERS,
                (*at, "resources", "requests", name),
                f"must be at least what the containers request ({quantity.write(amount)}), got "
                f"{quantity.write(requests[name])}",
            )
        elif name not in requests and name in limits and amount > limits[name]:
            yield error(
                POD_LIMIT_BELOW_CONTAINERS,
                (*at, "resources", "limits", name),
                f"must be at least what the containers request ({quantity.write(amount)}), got "
                f"{quantity.write(limits[name])}",
            )
    for index, container in mappings(spec.get("containers")):
        own = amounts(known(container.get("resources")).get("limits"))
        for name, amount in own.items():
            if name in limits and amount > limits[name]:
                yield error(
                    LIMIT_ABOVE_POD_LIMIT,
                    (*at, "containers", index, "resources", "limits", name),
                    f"must be at most the pod's limit ({quantity.write(limits[name])}), got "
                    f"{quantity.write(amount)}",
                )


def amounts(held: Any) -> dict[str, Decimal]:
    """The quantities of a mapping, as far as they are known."""
    found = {}
    for name, amount in known(held).items():
        parsed = parsed_amount(amount)
        if parsed is not None:
            found[str(name)] = parsed
    return found


def parsed_amount(amount: Any) -> Decimal | None:
    """A quantity, None where it is none or not known."""
    try:
        return quantity.parse(amount) if isinstance(amount, (str, int, float)) else None
    except ValueError:
        return None


def is_extended(name: str) -> bool:
    """Whether a resource is a device: fully qualified, and none of Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


def _requirements(
    at: Location,
    resources: Mapping[str, Any],
    name_findings: Callable[[Location, str], Iterator[Finding]],
) -> Iterator[Finding]:
    held = {key: known(resources.get(key)) for key in ("limits", "requests")}
    for key, its in held.items():
        for name, amount in its.items():
            here = (*at, key, str(name))
            yield from name_findings(here, str(name))
            yield from _amount(here, str(name), amount)
    limits = amounts(resources.get("limits"))
    for name, amount in amounts(resources.get("requests")).items():
        here = (*at, "requests", name)
        exact = is_extended(name) or name.startswith(_HUGE_PAGES)
        if name in limits:
            if exact and amount != limits[name]:
                yield error(
                    REQUEST_DIFFERS_FROM_LIMIT,
                    here,
                    f"must equal limits[{name}] ({held['limits'][name]}), got "
                    f"{shown(held['requests'][name])}",
                )
            elif amount > limits[name]:
                yield error(
                    REQUEST_ABOVE_LIMIT,
                    here,
                    f"must be at most limits[{name}] ({held['limits'][name]}), got "
                    f"{shown(held['requests'][name])}",
                )
        elif exact and name not in held["limits"]:
            yield error(LIMIT_MISSING, here, "needs the same amount in limits")
    names = {str(name) for its in held.values() for name in its}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        message = "huge pages need a request or limit of cpu or memory beside them"
        yield error(HUGE_PAGES_ALONE, at, message)


def _container_name(at: Location, name: str) -> Iterator[Finding]:
    if "/" not in name:
        if name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            meant = similar(name, _STANDARD)
            out = f"did you mean {meant}?" if meant else "devices have a domain: nvidia.com/gpu"
            message = f"{shown(name)} is no resource of a container; {out}"
            yield error(UNKNOWN_RESOURCE, at, message)
    elif not _is_qualified(name):
        message = f"{shown(name)} is no resource name; devices have a domain: nvidia.com/gpu"
        yield error(UNKNOWN_RESOURCE, at, message)


def _is_qualified(name: str) -> bool:
    if not QUALIFIED_NAME.fits(name):
        return False
    # A quota names it with this prefix.
    native = not is_extended(name)
    return native or (not name.startswith("requests.") and QUALIFIED_NAME.fits(f"requests.{name}"))


def _pod_name(at: Location, name: str) -> Iterator[Finding]:
    if name not in _OF_PODS and not name.startswith(_HUGE_PAGES):
        message = f"a pod as a whole asks for cpu, memory or huge pages only, got {shown(name)}"
        yield error(UNKNOWN_POD_RESOURCE, at, message)


def _amount(at: Location, name: str, amount: Any) -> Iterator[Finding]:
    held = parsed_amount(amount)
    if held is None:
        return
    if held < 0:
        yield error(NEGATIVE_QUANTITY, at, f"must be at least 0, got {shown(amount)}")
    elif is_extended(name) and held != held.to_integral_value():
        message = f"must be a whole number of devices, got {shown(amount)}"
        yield error(FRACTIONAL_DEVICES, at, message)
    elif name.startswith(_HUGE_PAGES):
        size = parsed_amount(name[len(_HUGE_PAGES) :])
        if size is None or size <= 0 or size != size.to_integral_value():
            message = f"{shown(name)} names no page size such as hugepages-2Mi"
            yield error(INVALID_PAGE_SIZE, at, message)
        elif held % size:
            message = f"must be whole pages of {name[len(_HUGE_PAGES) :]}, got {shown(amount)}"
            yield error(FRACTIONAL_HUGE_PAGES, at, message)


def _claims(at: Location, claims: Any, of_pod: Collection[str] | None) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for index, claim in mappings(claims):
        here = (*at, index)
        name, request = text(claim.get("name")), claim.get("request")
        if not given(claim.get("name")):
            yield error(FIELD_REQUIRED, (*here, "name"), "is required")
        if given(request):
            yield from _REQUEST_NAME((*here, "request"), request)
        if not name:
            continue
        whole, key = (name, ""), (name, text(request))
        again = whole in seen or key in seen or (not key[1] and any(s[0] == name for s in seen))
        if again:
            yield error(CLAIM_NAMED_TWICE, here, f"{shown(name)} is named twice; remove one")
        seen.add(key)
        if of_pod is not None and name not in of_pod:
            have = f"; it has {', '.join(sorted(of_pod))}" if of_pod else ""
            message = f"the pod has no claim {shown(name)}{have}: add it to its resourceClaims"
            yield error(CLAIM_MISSING, (*here, "name"), message)


def _aggregate(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """What the containers of a pod request together (component-helpers, `PodRequests`)."""
    running: dict[str, Decimal] = {}
    sidecars: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for _, container in mappings(spec.get("containers")):
        _add(running, _asked(container))
    for _, container in mappings(spec.get("initContainers")):
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            now: Mapping[str, Decimal] = dict(sidecars)
        else:
            now = {name: amount + sidecars.get(name, 0) for name, amount in asked.items()}
        for name, amount in now.items():
            starting[name] = max(starting.get(name, Decimal(0)), amount)
    _add(running, sidecars)
    names: Iterable[str] = {**running, **starting}
    return {
        name: max(running.get(name, Decimal(0)), starting.get(name, Decimal(0))) for name in names
    }


def _add(held: dict[str, Decimal], more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        held[name] = held.get(name, Decimal(0)) + amount


def _asked(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = known(container.get("resources"))
    # A request that is missing is the limit.
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}
