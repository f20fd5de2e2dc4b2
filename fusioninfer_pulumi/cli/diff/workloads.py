"""Workloads as the comparison reads them: what they run, and what an update does to it.

The rules are those of LeaderWorkerSet 0.10 (revision_utils.go, leaderworkerset_webhook.go): its
revision is `networkConfig` and `leaderWorkerTemplate`, nothing else restarts a replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.plain import at, count_at, same, text_at
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.topology import sub_group_policy

LWS_GROUP = "leaderworkerset.x-k8s.io"
VOLCANO_GROUP = "scheduling.volcano.sh"
LWS_TEMPLATE = "spec.leaderWorkerTemplate"
LWS_NETWORK = "spec.networkConfig"
POD_TEMPLATE = "spec.template"

#: Where a LeaderWorkerSet says how it updates its groups.
ROLLING = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
#: Feature gate by which a StatefulSet, and so LeaderWorkerSet, goes by `maxUnavailable`.
GATE = "MaxUnavailableStatefulSet"
_APPS_KINDS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
# What LeaderWorkerSet's own defaulting writes: making it explicit is no new revision.
_TEMPLATE_DEFAULTS = {"size": 1, "restartPolicy": "RecreateGroupOnPodRestart"}
_NETWORK_DEFAULT = {"subdomainPolicy": "Shared"}


def is_set(key: Identity) -> bool:
    """Tells whether an object is a LeaderWorkerSet."""
    return key.group == LWS_GROUP and key.kind == "LeaderWorkerSet"


def is_pod_group(key: Identity) -> bool:
    """Tells whether an object is a Volcano PodGroup."""
    return key.group == VOLCANO_GROUP and key.kind == "PodGroup"


def is_apps_workload(key: Identity) -> bool:
    """Tells whether an object is a workload of Kubernetes' own that keeps pods running."""
    return key.group == "apps" and key.kind in _APPS_KINDS


def template_paths(key: Identity) -> tuple[str, ...]:
    """Paths below which a change restarts pods; none where the object runs no pods."""
    if is_set(key):
        return LWS_TEMPLATE, LWS_NETWORK
    return (POD_TEMPLATE,) if is_apps_workload(key) else ()


def restarts(key: Identity, old: Manifest, new: Manifest) -> bool:
    """Tells whether an update of an object makes its pods anew."""
    if is_set(key):
        return not same(_lws_revision(old), _lws_revision(new))
    return is_apps_workload(key) and not same(
        at(old, "spec", "template"), at(new, "spec", "template")
    )


def refused_field(key: Identity, old: Manifest, new: Manifest) -> str | None:
    """Names the field that no update changes, so that the object is replaced.

    Args:
        key: Identity of both.
        old: Object before.
        new: Object after.

    Returns:
        The first such field, None where the object can be updated.
    """
    if is_apps_workload(key):
        changed = not same(at(old, "spec", "selector"), at(new, "spec", "selector"))
        return "selector" if changed else None
    if not is_set(key):
        return None
    olds, news = (at(each, "spec", "leaderWorkerTemplate") for each in (old, new))
    policies = [at(each, sub_group_policy.FIELD) for each in (olds, news)]
    if not sub_group_policy.same_policy(*policies):
        if None in policies:
            return sub_group_policy.FIELD
        sizes = (at(each, sub_group_policy.SIZE) for each in policies)
        differing = sub_group_policy.TYPE if same(*sizes) else sub_group_policy.SIZE
        return f"{sub_group_policy.FIELD}.{differing}"
    if not same(at(olds, "volumeClaimTemplates") or [], at(news, "volumeClaimTemplates") or []):
        return "volumeClaimTemplates"
    # Without any networkConfig the webhook fills in the default; with an empty one it refuses.
    network = at(new, "spec", "networkConfig")
    had_policy = at(old, "spec", "networkConfig", "subdomainPolicy") is not None
    if had_policy and network is not None and at(network, "subdomainPolicy") is None:
        return "networkConfig.subdomainPolicy"
    return None


def gang(manifest: Manifest) -> str:
    """Name of the PodGroup that a LeaderWorkerSet's pods belong to, empty without a gang."""
    template = at(manifest, "spec", "leaderWorkerTemplate", "workerTemplate")
    return text_at(template, "metadata", "annotations", labels.GROUP_NAME)


def partition(manifest: Manifest) -> int:
    """Ordinal below which an update of a LeaderWorkerSet leaves its groups as they are."""
    stated = at(manifest, *ROLLING, "partition") is not None
    return count_at(manifest, *ROLLING, "partition") if stated else 0


def pace(manifest: Manifest) -> str:
    """How LeaderWorkerSet updates the groups of one set, empty where it has a single one."""
    if count_at(manifest, "spec", "replicas") <= 1:
        return ""
    limit, surge = (at(manifest, *ROLLING, key) for key in ("maxUnavailable", "maxSurge"))
    count = "1" if limit in (None, 0, 1) else f"up to {'all' if limit == '100%' else limit}"
    told = f"the highest ordinal first, {count} at a time"
    if surge:
        told += f", with {surge} more meanwhile"
    return told if count == "1" else f"{told} (one where {GATE} is off)"


def service_of(key: Identity, manifest: Manifest) -> str:
    """Service that an object belongs to; a LeaderWorkerSet without labels is its own service."""
    named = text_at(manifest, "metadata", "labels", labels.SERVICE)
    return named or (key.name if is_set(key) else "")


def role_of(key: Identity, manifest: Manifest) -> str:
    """Role that a workload runs, its own name without labels."""
    return text_at(manifest, "metadata", "labels", labels.ROLE_NAME) or key.name


def is_picker(key: Identity, manifest: Manifest) -> bool:
    """Tells whether a workload is the endpoint picker of a service."""
    component = text_at(manifest, "metadata", "labels", labels.COMPONENT_TYPE)
    return key.kind == "Deployment" and (component == "router" or key.name.endswith("-epp"))


def _lws_revision(manifest: Manifest) -> list[Any]:
    template = at(manifest, "spec", "leaderWorkerTemplate")
    if isinstance(template, Mapping):
        policy = at(template, sub_group_policy.FIELD)
        if isinstance(policy, Mapping):
            template = {**template, sub_group_policy.FIELD: sub_group_policy.completed(policy)}
        template = {**_TEMPLATE_DEFAULTS, **template}
    network = at(manifest, "spec", "networkConfig")
    return [template, _NETWORK_DEFAULT if network is None else network]
