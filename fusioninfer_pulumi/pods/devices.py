"""Devices of pods: claims with their ResourceClaimTemplates, and RDMA for KV cache transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs
from fusioninfer_pulumi.api.kv_transfer import RdmaArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.containers import add_env
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_object, metadata
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.pods.pod_metadata import role_labels
from fusioninfer_pulumi.rules.common import TAKEN_BY_TEMPLATE


@dataclass(frozen=True)
class ClaimTemplate:
    """A ResourceClaimTemplate, with the spec of the claims that are made from it."""

    name: str
    spec: dict[str, Any]


def claim_template(service: str, role: str, claim: ResourceClaimArgs) -> ClaimTemplate:
    """Return the template of one claim.

    Templates cannot change (the API server's validation), so the name ends in a hash of the spec:
    other devices are another template, and pods that name it.
    """
    spec = claim.spec if claim.spec is not None else _described(claim)
    digest = content_digest(spec, 8)
    return ClaimTemplate(object_names.claim_template(service, role, claim.name, digest), spec)


def claim_requests(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the requests of a claim's spec; malformed ones are left to the API server."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, Mapping) else None
    listed = requests if isinstance(requests, list) else []
    return [request for request in listed if isinstance(request, Mapping)]


def device_claims(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Give the serving containers the role's resource claims."""
    claims = ctx.role.resource_claims or []
    if not claims:
        return pods, []
    findings: list[Finding] = []
    used = [{"name": claim.name} for claim in claims]
    referred = []
    for claim in claims:
        reference = {"resourceClaimName": claim.claim_name}
        if claim.claim_name is None:
            generated = claim_template(ctx.meta.service, ctx.role.name, claim)
            reference = {"resourceClaimTemplateName": claim.template_name or generated.name}
        referred.append({"name": claim.name, **reference})

    def using(container: Mapping[str, Any]) -> Mapping[str, Any]:
        resources = container.get("resources") or {}
        granted = {**resources, "claims": [*(resources.get("claims") or ()), *used]}
        return {**container, "resources": granted}

    for pod in pods.all:
        existing = {reference.get("name") for reference in pod.spec.get("resourceClaims") or ()}
        taken = [
            error(
                TAKEN_BY_TEMPLATE,
                (*pod.path, "spec", "resourceClaims"),
                f'"{claim.name}" is also the name of one of resourceClaims; rename one',
            )
            for claim in claims
            if claim.name in existing
        ]
        findings += taken
        if not taken:
            listed = [*(pod.spec.get("resourceClaims") or ()), *referred]
            pods = pods.put(pod.with_container(using).with_spec(resourceClaims=listed))
    return pods, findings


def _described(claim: ResourceClaimArgs) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "deviceClassName": claim.device_class_name,
        "allocationMode": "ExactCount",
        "count": claim.count or 1,
    }
    if claim.selectors:
        wanted["selectors"] = [{"cel": {"expression": text}} for text in claim.selectors]
    if claim.admin_access is not None:
        wanted["adminAccess"] = claim.admin_access
    return {"devices": {"requests": [{"name": "devices", "exactly": wanted}]}}


def resource_claim_templates(
    meta: ServiceMeta, roles: Iterable[RoleArgs]
) -> Iterator[dict[str, Any]]:
    """Build the ResourceClaimTemplates of roles."""
    for role in roles:
        made = [claim for claim in role.resource_claims or () if claim.made]
        for template in (claim_template(meta.service, role.name, claim) for claim in made):
            named = metadata(meta, template.name, role_labels(meta, role))
            kind, spec = "ResourceClaimTemplate", {"spec": template.spec}
            yield build_object("resource.k8s.io/v1", kind, named, spec=spec)


_IPC_LOCK = "IPC_LOCK"


def rdma(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Give the serving containers their devices, and the variables that name them."""
    args = ctx.role.kv_transfer.rdma if ctx.role.kv_transfer is not None else None
    if args is None:
        return pods, []
    findings: list[Finding] = []
    for pod in pods.all:
        taken = list(pod.conflict_findings((), "", _variables(args), "kvTransfer.rdma"))
        limits = (pod.container.get("resources") or {}).get("limits") or {}
        if args.resource is not None and args.resource in limits:
            at = (*pod.container_path, "resources", "limits", args.resource)
            message = "conflicts with kvTransfer.rdma, which requests it; remove one of them"
            taken.append(error(TAKEN_BY_TEMPLATE, at, message))
        findings += taken
        if not taken:
            pods = pods.put(pod.with_container(lambda container: _with_rdma(container, args)))
    return pods, findings


def _with_rdma(container: Mapping[str, Any], args: RdmaArgs) -> dict[str, Any]:
    built = add_env(container, _variables(args))
    if args.resource is not None:
        resources = container.get("resources") or {}
        limits = {**(resources.get("limits") or {}), args.resource: str(args.count)}
        built["resources"] = {**resources, "limits": limits}
    if args.lock_memory:
        security = container.get("securityContext") or {}
        capabilities = security.get("capabilities") or {}
        added = [name for name in capabilities.get("add") or () if name != _IPC_LOCK]
        capabilities = {**capabilities, "add": [*added, _IPC_LOCK]}
        built["securityContext"] = {**security, "capabilities": capabilities}
    return built


def _variables(args: RdmaArgs) -> list[dict[str, str]]:
    explicit: dict[str, str | None] = {
        "UCX_TLS": args.transports,
        "UCX_NET_DEVICES": ",".join(args.devices) if args.devices else None,
        # NCCL calls a device by its name alone; UCX wants the port behind it.
        "NCCL_IB_HCA": ",".join(dict.fromkeys(device.partition(":")[0] for device in args.devices))
        if args.devices
        else None,
    }
    for name in ("UCX_IB_GID_INDEX", "NCCL_IB_GID_INDEX"):
        explicit[name] = None if args.gid_index is None else str(args.gid_index)
    return [{"name": name, "value": value} for name, value in explicit.items() if value is not None]
