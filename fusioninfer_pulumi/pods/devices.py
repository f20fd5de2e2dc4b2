"""Passes for the devices of pods: resource claims, and RDMA for KV cache transfer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.kv_cache import RdmaArgs
from fusioninfer_pulumi.api.role import ResourceClaimArgs, RoleArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.containers import add_env
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_metadata, build_object
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.pods.pod_metadata import get_role_labels
from fusioninfer_pulumi.rules.common import TAKEN_BY_TEMPLATE


def _get_claim_template_name(service: str, role: str, claim: ResourceClaimArgs) -> str:
    """Return the name of a claim's ResourceClaimTemplate: the user's, or a generated one's.

    The API server rejects changes to a template, so a generated name ends in a hash of the spec. A
    changed spec creates a new template, and new pods that reference it.
    """
    digest = content_digest(build_claim_spec(claim), 8)
    return claim.template_name or object_names.claim_template(service, role, claim.name, digest)


def add_device_claims(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add the role's resource claims to the serving containers."""
    claims = ctx.role.resource_claims or []
    if not claims:
        return pods, []
    findings: list[Finding] = []
    container_claims = [{"name": claim.name} for claim in claims]
    pod_claims = []
    for claim in claims:
        if claim.claim_name is not None:
            reference = {"resourceClaimName": claim.claim_name}
        else:
            name = _get_claim_template_name(ctx.meta.service, ctx.role.name, claim)
            reference = {"resourceClaimTemplateName": name}
        pod_claims.append({"name": claim.name, **reference})

    def add_claims(container: Mapping[str, Any]) -> Mapping[str, Any]:
        resources = container.get("resources") or {}
        merged = [*(resources.get("claims") or ()), *container_claims]
        return {**container, "resources": {**resources, "claims": merged}}

    for pod in pods.all:
        existing = {reference.get("name") for reference in pod.spec.get("resourceClaims") or ()}
        conflicts = [
            error(
                TAKEN_BY_TEMPLATE,
                (*pod.path, "spec", "resourceClaims"),
                f'"{claim.name}" is also the name of a claim of the role; rename one of them',
            )
            for claim in claims
            if claim.name in existing
        ]
        findings += conflicts
        if not conflicts:
            all_claims = [*(pod.spec.get("resourceClaims") or ()), *pod_claims]
            pods = pods.with_pod(
                pod.with_container(add_claims).with_spec(resourceClaims=all_claims)
            )
    return pods, findings


def build_claim_spec(claim: ResourceClaimArgs) -> Mapping[str, Any]:
    """Return the spec that a generated ResourceClaimTemplate gives its ResourceClaims."""
    if claim.spec is not None:
        return claim.spec
    request: dict[str, Any] = {
        "deviceClassName": claim.device_class_name,
        "allocationMode": "ExactCount",
        "count": claim.count or 1,
    }
    if claim.selectors:
        request["selectors"] = [{"cel": {"expression": text}} for text in claim.selectors]
    if claim.admin_access is not None:
        request["adminAccess"] = claim.admin_access
    return {"devices": {"requests": [{"name": "devices", "exactly": request}]}}


def build_resource_claim_templates(
    meta: ServiceMeta, roles: Iterable[RoleArgs]
) -> Iterator[dict[str, Any]]:
    """Build the ResourceClaimTemplates of roles."""
    for role in roles:
        claims = [claim for claim in role.resource_claims or () if claim.needs_template]
        for claim in claims:
            name = _get_claim_template_name(meta.service, role.name, claim)
            object_meta = build_metadata(meta, name, get_role_labels(meta, role))
            kind, spec = "ResourceClaimTemplate", {"spec": build_claim_spec(claim)}
            yield build_object("resource.k8s.io/v1", kind, object_meta, spec=spec)


_IPC_LOCK = "IPC_LOCK"


def add_rdma(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add the RDMA resource, variables for RDMA and `IPC_LOCK` to the serving containers."""
    args = ctx.role.kv_transfer.rdma if ctx.role.kv_transfer is not None else None
    if args is None:
        return pods, []
    findings: list[Finding] = []
    env = _build_rdma_env(args)
    for pod in pods.all:
        conflicts = list(pod.find_conflicts(env=env, env_source="kvTransfer.rdma"))
        limits = (pod.container.get("resources") or {}).get("limits") or {}
        if args.resource is not None and args.resource in limits:
            location = (*pod.container_path, "resources", "limits", args.resource)
            message = "conflicts with kvTransfer.rdma, which requests it; remove one of them"
            conflicts.append(error(TAKEN_BY_TEMPLATE, location, message))
        findings += conflicts
        if not conflicts:
            pods = pods.with_pod(pod.with_container(lambda container: _with_rdma(container, args)))
    return pods, findings


def _with_rdma(container: Mapping[str, Any], args: RdmaArgs) -> dict[str, Any]:
    changed = add_env(container, _build_rdma_env(args))
    if args.resource is not None:
        resources = container.get("resources") or {}
        limits = {**(resources.get("limits") or {}), args.resource: str(args.count)}
        changed["resources"] = {**resources, "limits": limits}
    if args.lock_memory:
        security = container.get("securityContext") or {}
        capabilities = security.get("capabilities") or {}
        names = [name for name in capabilities.get("add") or () if name != _IPC_LOCK]
        capabilities = {**capabilities, "add": [*names, _IPC_LOCK]}
        changed["securityContext"] = {**security, "capabilities": capabilities}
    return changed


def _build_rdma_env(args: RdmaArgs) -> list[dict[str, str]]:
    # UCX needs a device with its port, such as `mlx5_0:1`; NCCL needs the name without the port.
    names = dict.fromkeys(device.partition(":")[0] for device in args.devices)
    values: dict[str, str | None] = {
        "UCX_TLS": args.transports,
        "UCX_NET_DEVICES": ",".join(args.devices) or None,
        "NCCL_IB_HCA": ",".join(names) or None,
    }
    for name in ("UCX_IB_GID_INDEX", "NCCL_IB_GID_INDEX"):
        values[name] = None if args.gid_index is None else str(args.gid_index)
    return [{"name": name, "value": value} for name, value in values.items() if value is not None]
