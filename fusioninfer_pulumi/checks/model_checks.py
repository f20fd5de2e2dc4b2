"""Checks of a service's model: how its files come to the pods, and the claim that keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.model import AccessMode, hub_name
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service_shape import serving
from fusioninfer_pulumi.findings import Finding, Rule, error, info, warning
from fusioninfer_pulumi.kube import object_names, quantity
from fusioninfer_pulumi.kube.object_names import DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.pods.model_cache import DIGEST_LENGTH
from fusioninfer_pulumi.pods.model_files import model_files
from fusioninfer_pulumi.presets.model_catalogue import model_bytes
from fusioninfer_pulumi.rules.common import CLUSTER_MUST_HAVE, NAME_TOO_LONG

CACHE_BELOW_MODEL_SIZE = Rule("cache-below-model-size")
ACCESS_MODE_TOO_NARROW = Rule("access-mode-too-narrow")


def model_findings(built: BuiltService) -> Iterator[Finding]:
    """Check how the pods get the service's model, and the claim that caches it."""
    args, service, model = built.args, built.plan.service, built.args.model
    files = model_files(service, model) if model is not None else None
    if model is None or files is None:
        return
    roles, groups = serving(args.roles), 1 if args.groups is None else args.groups
    if files.images:
        yield info(
            CLUSTER_MUST_HAVE,
            ("model", "uri"),
            "oci:// is mounted as an image volume: Kubernetes has them from 1.33 on behind the "
            "feature gate ImageVolume, and by default from 1.35 on",
        )
    pods = groups * sum(role.replicas * role.nodes for role in roles)
    cache = model.cache
    if cache is None:
        return
    job = object_names.model_warm_up(service, "0" * DIGEST_LENGTH)
    if cache.warm_up and len(job) > DNS_LABEL_LIMIT:
        yield error(
            NAME_TOO_LONG,
            ("model", "cache", "warmUp"),
            f"the Job's name would have {len(job)} characters, at most {DNS_LABEL_LIMIT} are "
            f"allowed; shorten the name of service {service} by {len(job) - DNS_LABEL_LIMIT}",
        )
    if cache.storage is not None:
        yield from _access(cache.storage.access_modes, roles, pods)
        size = cache.storage.size
        weights = model.size or model_bytes(model, hub_name(model.uri) or "")
        if weights is not None and quantity.parse(size) < quantity.parse(weights):
            amount = f"{quantity.parse(weights) / 2**30:.0f} GiB"
            at = ("model", "cache", "storage", "size")
            # A known model's weights may be those of another precision.
            make_finding = error if model.size is not None else warning
            yield make_finding(CACHE_BELOW_MODEL_SIZE, at, f"must be at least {amount}, got {size}")


def _access(modes: Sequence[AccessMode], roles: Sequence[RoleArgs], pods: int) -> Iterator[Finding]:
    at = ("model", "cache", "storage", "accessModes")
    if AccessMode.READ_WRITE_MANY in modes or pods < 2:
        return
    if AccessMode.READ_WRITE_ONCE_POD in modes:
        message = f"ReadWriteOncePod allows one pod, and the service has {pods}"
        yield error(ACCESS_MODE_TOO_NARROW, at, message)
    elif AccessMode.READ_ONLY_MANY in modes:
        return
    elif any(role.nodes > 1 for role in roles):
        message = "ReadWriteOnce allows one node, and replicas span several; use ReadWriteMany"
        yield error(ACCESS_MODE_TOO_NARROW, at, message)
    else:
        yield warning(
            ACCESS_MODE_TOO_NARROW,
            at,
            f"ReadWriteOnce allows one node, so all {pods} pods must fit on it; use ReadWriteMany",
        )
