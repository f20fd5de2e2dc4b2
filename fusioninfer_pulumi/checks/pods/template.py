"""What API validation refuses of a finished pod template, as far as people get it wrong.

No schema says these rules. Those that are left out are the API server's: `checks.server` asks it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.checks.pods._values import (
    DNS_LABEL,
    OBJECT_NAME,
    Check,
    exactly_one,
    fields,
    formatted,
    given,
    items,
    known,
    listed,
    mappings,
    number,
    one_of,
    text,
)
from fusioninfer_pulumi.checks.pods.containers import PodFacts, container_findings, container_names
from fusioninfer_pulumi.checks.pods.scheduling import affinity, label_map, spread, tolerations
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.rules import SOURCES_NOT_ONE
from fusioninfer_pulumi.rules.common import FIELD_OUT_OF_PLACE

POD_RESTART_POLICY = Rule(
    "pod-restart-policy",
    "error",
    "Pods of a LeaderWorkerSet have `restartPolicy: Always`.",
    remedy="Remove `restartPolicy` from the template; the role's `restartPolicy` says what a "
    "failure restarts.",
)


class Owner(enum.Enum):
    """Whose pod template it is."""

    STATEFUL_SET = enum.auto()
    DEPLOYMENT = enum.auto()
    JOB = enum.auto()


#: Fields that volumes of the commonest sources need.
_SOURCES: Mapping[str, Check] = {
    "configMap": fields({}, required=("name",)),
    "secret": fields({}, required=("secretName",)),
    "persistentVolumeClaim": fields({}, required=("claimName",)),
    "hostPath": fields({}, required=("path",)),
    "nfs": fields({}, required=("server", "path")),
    "csi": fields({}, required=("driver",)),
    "image": fields({}, required=("reference",)),
}
_OTHER_SOURCES = ("emptyDir", "projected", "downwardAPI", "ephemeral")
_VOLUME = fields(
    {"name": formatted(DNS_LABEL), **_SOURCES},
    exactly_one(SOURCES_NOT_ONE, "source", tuple(sorted((*_SOURCES, *_OTHER_SOURCES))), least=0),
    required=("name",),
)
_SPEC = fields(
    {
        "volumes": items(_VOLUME),
        "dnsPolicy": one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "nodeSelector": label_map,
        "serviceAccountName": formatted(OBJECT_NAME),
        "priorityClassName": formatted(OBJECT_NAME),
        "runtimeClassName": formatted(OBJECT_NAME),
        "affinity": affinity,
        "tolerations": tolerations,
        "topologySpreadConstraints": spread,
    }
)


def template_findings(
    template: Mapping[str, Any], owner: Owner = Owner.STATEFUL_SET
) -> Iterator[Finding]:
    """Checks a finished pod template; locations are relative to it."""
    spec = known(template.get("spec"))
    yield from label_map(("metadata", "labels"), known(template.get("metadata")).get("labels"))
    pod = PodFacts(volumes=_names(spec, "volumes"), claims=_names(spec, "resourceClaims"))
    at: Location = ("spec",)
    for key in ("initContainers", "containers"):
        for index, container in mappings(spec.get(key)):
            here = (*at, key, index)
            yield from container_findings(here, container, pod, starting=key != "containers")
    yield from container_names(at, spec)
    yield from _SPEC(at, spec)
    priority = number(spec.get("priority"))
    if priority and not given(spec.get("priorityClassName")):
        message = "is set by the API server, by priorityClassName alone; name a class instead"
        yield error(FIELD_OUT_OF_PLACE, (*at, "priority"), message)
    policy = spec.get("restartPolicy")
    kept = owner is not Owner.JOB and policy not in (None, "", "Always")
    if kept and not is_output(policy):
        message = f"must be Always for pods that are kept running, got {shown(policy)}"
        yield error(POD_RESTART_POLICY, (*at, "restartPolicy"), message)


def _names(spec: Mapping[str, Any], key: str) -> set[str] | None:
    """The names of a list's items, None where they are not all known."""
    value = spec.get(key)
    if is_output(value) or any(
        is_output(item) or is_output(known(item).get("name")) for item in listed(value)
    ):
        return None
    return {text(item["name"]) for _, item in mappings(value) if given(item.get("name"))}
