"""Small prefill/decode services, and their pods."""

from __future__ import annotations

from typing import Any

from samples import plan_of, role, service, template

from fusioninfer_pulumi.plan.service_objects import render_workloads

Manifest = dict[str, Any]

IMAGE = "vllm/vllm-openai:v0.11.0"
NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
NIXL_ARGS = ["--kv-transfer-config", NIXL]


def engine(*args: str, **more: Any) -> Manifest:
    """Return a vLLM container with these arguments."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    return {"name": "vllm", "image": IMAGE, "args": list(args), "resources": limits, **more}


def pair(
    prefill: Manifest | None = None,
    decode: Manifest | None = None,
    *,
    router: Manifest | None = None,
    paired: bool = True,
    prefill_role: Manifest | None = None,
    decode_role: Manifest | None = None,
    pod: Manifest | None = None,
) -> Manifest:
    """Return a prefill/decode service, whose engines transfer KV caches with NIXL by default.

    `pod` has additional fields of the decode pods' spec. There is a router only if `paired`.
    """
    nixl_engine = engine("--model=m", *NIXL_ARGS)
    first = {"template": template(prefill or nixl_engine), **(prefill_role or {})}
    second = {"template": template(decode or nixl_engine, **(pod or {})), **(decode_role or {})}
    roles = [role("prefill", "prefiller", **first), role("decode", "decoder", **second)]
    if paired:
        route = {"httproute": {"parentRefs": [{"name": "gw"}]}}
        roles.insert(0, role("router", "router", template=None, **route, **(router or {})))
    return service(*roles)


def leader(manifest: Manifest, name: str = "decode") -> Manifest:
    """Return the pod template of a role's leaders."""
    (item, *_) = (
        workload
        for workload in render_workloads(plan_of(manifest))
        if workload["metadata"]["labels"].get("fusioninfer.io/role-name") == name
    )
    body = item["spec"]["leaderWorkerTemplate"]
    result: Manifest = body.get("leaderTemplate") or body["workerTemplate"]
    return result


def worker(manifest: Manifest, name: str = "decode") -> Manifest:
    """Return the pod template of a role's workers."""
    for workload in render_workloads(plan_of(manifest)):
        if workload["metadata"]["labels"].get("fusioninfer.io/role-name") == name:
            result: Manifest = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]
            return result
    raise AssertionError(f"no role {name}")


def serving(template: Manifest) -> Manifest:
    """Return the serving container of a pod template."""
    (container, *_) = template["spec"]["containers"]
    result: Manifest = container
    return result


def sidecar(template: Manifest) -> Manifest | None:
    """Return the sidecar of a pod template, or None if it has none."""
    for container in template["spec"].get("initContainers") or ():
        if container["name"] == "pd-sidecar":
            result: Manifest = container
            return result
    return None


def decode_sidecar(manifest: Manifest) -> Manifest:
    """Return the sidecar of a service's decode leaders."""
    result = sidecar(leader(manifest))
    assert result is not None, "the decode leaders have no sidecar"
    return result


def transfer(**more: Any) -> Manifest:
    """Return a role's `kvTransfer`."""
    return {"kvTransfer": more}


def words(template: Manifest) -> list[str]:
    """Return command and args of the serving container."""
    container = serving(template)
    return [*container.get("command", ()), *container.get("args", ())]
