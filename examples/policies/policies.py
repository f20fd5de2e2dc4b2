"""Policies for the inputs of single resources, and for all resources of a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi_policy import (
    Policy,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.kube.resource_requests import count_accelerators

MAX_GPUS = 64
REGISTRIES = ("registry.example.com/", "vllm/", "ghcr.io/llm-d/", "registry.k8s.io/")
MODELS = ("hf://Qwen/", "hf://deepseek-ai/")
MIN_REPLICAS = 2
PRODUCTION = "prod"

LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
ROUTE = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"
#: Kinds of Envoy Gateway and Istio that authenticate the requests of a route.
AUTHENTICATION = {
    "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy",
    "kubernetes:security.istio.io/v1:AuthorizationPolicy",
}

Report = Callable[..., None]


def check_gpu_budget(args: StackValidationArgs, report: Report) -> None:
    """Limit the GPUs of a stack."""
    total = sum(
        count_gpus(resource.props) for resource in args.resources if resource.resource_type == LWS
    )
    if total > MAX_GPUS:
        report(f"the stack uses {total} GPUs, allowed: {MAX_GPUS}")


def check_images(args: ResourceValidationArgs, report: Report) -> None:
    """Reject images without a fixed tag, and images from other registries."""
    for image in list_images(args.props):
        name, _, tag = image.rpartition(":")
        if "@" not in image and (not name or "/" in tag or tag == "latest"):
            report(f"{image} has no fixed tag")
        if not image.startswith(REGISTRIES):
            report(f"{image} is not from an allowed registry: {', '.join(REGISTRIES)}")


def check_model(args: ResourceValidationArgs, report: Report) -> None:
    """Reject models that the platform has not approved."""
    uri = (args.props.get("model") or {}).get("uri") if args.resource_type == TOKEN else None
    if uri and not uri.startswith(MODELS):
        report(f"{uri} is not an approved model: {', '.join(MODELS)}")


def check_replicas(args: ResourceValidationArgs, report: Report) -> None:
    """Require two replicas of each role, and a disruption budget, in production."""
    if args.resource_type != TOKEN or not is_production(args.urn):
        return
    for role in args.props["roles"]:
        if role["componentType"] == "router":
            continue
        if role["replicas"] < MIN_REPLICAS and "autoscaling" not in role:
            report(f"role {role['name']} needs at least {MIN_REPLICAS} replicas")
        if "disruptionBudget" not in role and "disruptionBudget" not in args.props:
            report(f"role {role['name']} has no disruptionBudget")


def check_authentication(args: StackValidationArgs, report: Report) -> None:
    """Reject routes without a gateway policy that authenticates clients."""
    protected = {
        target["name"]
        for resource in args.resources
        if resource.resource_type in AUTHENTICATION
        for target in resource.props["spec"].get("targetRefs", ())
    }
    for resource in args.resources:
        if resource.resource_type == ROUTE and not list_policy_targets(resource) & protected:
            report("the route is public: no policy authenticates its requests", resource.urn)


def list_policy_targets(route: PolicyResource) -> set[str]:
    """Return the names of the route and its Gateways, which a gateway policy may target."""
    parents = route.props["spec"].get("parentRefs", ())
    return {route.props["metadata"]["name"], *(parent["name"] for parent in parents)}


def count_gpus(lws: Mapping[str, Any]) -> int:
    """Return the GPUs of all replicas of a LeaderWorkerSet."""
    template = lws["spec"]["leaderWorkerTemplate"]
    worker = count_accelerators(template["workerTemplate"])
    leader = count_accelerators(template.get("leaderTemplate") or template["workerTemplate"])
    nodes = template.get("size", 1)
    return int(lws["spec"].get("replicas", 1) * (leader + (nodes - 1) * worker))


def list_images(value: Any) -> Iterator[str]:
    """Yield the images of all containers in an object."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("containers", "initContainers"):
                yield from (container["image"] for container in item if "image" in container)
            else:
                yield from list_images(item)


def is_production(urn: str) -> bool:
    """Return whether a resource belongs to a production stack."""
    return urn.startswith(f"urn:pulumi:{PRODUCTION}")


POLICIES: list[Policy] = [
    StackValidationPolicy("gpu-budget", "Stacks use at most 64 GPUs.", check_gpu_budget),
    ResourceValidationPolicy(
        "images", "Images have a fixed tag and a known registry.", check_images
    ),
    ResourceValidationPolicy("approved-models", "Models are approved.", check_model),
    ResourceValidationPolicy(
        "production-replicas", "Roles have two replicas and a budget in production.", check_replicas
    ),
    StackValidationPolicy(
        "authenticated-routes", "Requests to routes are authenticated.", check_authentication
    ),
]
