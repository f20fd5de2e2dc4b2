"""The backend of the route: the Service, or the InferencePool and the objects that refer to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, FailureMode, PoolArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_choice import EppChoice
from fusioninfer_pulumi.endpoint_pickers.picker_config import GRPC_PORT
from fusioninfer_pulumi.endpoint_pickers.picker_families import LLM_D_V1_API, EppFamily
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.topology.role_plan import RolePlan


def build_service_reference(
    service: str, roles: Sequence[RolePlan], shape: ServiceShape
) -> Manifest:
    """Return a route's reference to the Service.

    It has the port of the first role that receives requests; roles scaled to zero come last.
    """
    entries = [role for role in roles if role.component_type in shape.entry_types]
    running = [role for role in entries if role.replicas]
    port = (running or entries)[0].pods.port
    return {"kind": "Service", "name": object_names.serving_service(service), "port": port}


def build_serving_service(
    meta: ServiceMeta, roles: Sequence[RolePlan], shape: ServiceShape
) -> Manifest:
    """Build the Service that routes lead to if there is no endpoint picker.

    It selects only leaders and, in a disaggregated service, only decode pods.
    """
    selector = {labels.SERVICE: meta.service, labels.LWS_WORKER_INDEX: "0"}
    types = shape.entry_types
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = types[0].value
    reference = build_service_reference(meta.service, roles, shape)
    name, port = reference["name"], reference["port"]
    ports = [{"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}]
    spec = {"type": "ClusterIP", "selector": selector, "ports": ports}
    object_meta = build_metadata(meta, name, {labels.SERVICE: meta.service})
    return build_object("v1", "Service", object_meta, spec=spec)


class PoolPlan(NamedTuple):
    """The pods that the endpoint picker chooses from.

    Attributes:
        selector: Labels that only the serving pods have.
        ports: Ports of each pod, of which the picker chooses one. There are several if the ranks of
            an engine have separate ports.
        roles: Names of the roles whose pods the pool contains.
        args: The user's settings, with Pulumi's options.
    """

    name: str
    selector: Mapping[str, str]
    ports: tuple[int, ...]
    roles: tuple[str, ...]
    args: PoolArgs

    @property
    def ports_text(self) -> str:
        """The ports, for messages."""
        noun = "port" if len(self.ports) == 1 else "ports"
        return f"{noun} {', '.join(map(str, self.ports))}"


def choose_pool_types(roles: Sequence[RolePlan], epp_choice: EppChoice) -> frozenset[ComponentType]:
    """Return the component types whose leaders are in the pool.

    The pool contains all types if the endpoint picker pairs prefill with decode pods. Otherwise it
    excludes prefill pods, which return only one token, unless there are no others. With decode pods
    it also excludes those of type worker, because its selector matches either one type or all.
    """
    types = frozenset(role.component_type for role in roles)
    if epp_choice.pairs_pods or ComponentType.PREFILLER not in types or len(types) == 1:
        return types
    if ComponentType.DECODER in types:
        return frozenset({ComponentType.DECODER})
    return types - {ComponentType.PREFILLER}


def plan_pool(
    service: str,
    router: RoleArgs,
    backend_roles: Sequence[RolePlan],
    types: Collection[ComponentType],
) -> PoolPlan:
    """Plan the pool of a router role, which contains the leaders of its backend roles."""
    # Worker index 0 selects leaders; other pods of a replica do not serve.
    selector = {labels.SERVICE: service, labels.LWS_WORKER_INDEX: "0"}
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = next(iter(types)).value
    pool = router.pool or PoolArgs()
    return PoolPlan(
        name=object_names.inference_pool(service),
        selector=selector,
        ports=tuple(pool.target_ports or backend_roles[0].pods.ports),
        roles=tuple(role.name for role in backend_roles),
        args=pool,
    )


def build_inference_pool(meta: ServiceMeta, pool: PoolPlan, epp: EppPlan) -> Manifest:
    """Build the InferencePool, which refers to the endpoint picker's Service."""
    mode = epp.args.failure_mode or FailureMode.FAIL_OPEN
    spec = {
        "selector": {"matchLabels": dict(pool.selector)},
        "targetPorts": [{"number": port} for port in pool.ports],
        "endpointPickerRef": {
            "name": epp.name,
            "port": {"number": GRPC_PORT},
            "failureMode": mode.value,
        },
    }
    version = f"{object_names.POOL_GROUP}/v1"
    return build_object(version, object_names.POOL_KIND, build_metadata(meta, pool.name), spec=spec)


def is_pool(ref: Mapping[str, Any]) -> bool:
    """Return whether a backend is an InferencePool, of any service."""
    return ref.get("kind") == object_names.POOL_KIND and ref.get("group") == object_names.POOL_GROUP


def build_pool_reference(name: str) -> Manifest:
    """Return a reference to an InferencePool, for a backend of a route or a policy's target."""
    return {"group": object_names.POOL_GROUP, "kind": object_names.POOL_KIND, "name": name}


class RewriteRule(NamedTuple):
    """A rule that maps model names in requests to models.

    Attributes:
        models: Model names in requests; empty for all names without a rule.
        weights: Weight of each model that replaces the name, above 0.
    """

    models: tuple[str, ...]
    weights: Mapping[str, int]

    def describe(self) -> str:
        """Return the rule as text."""
        names = ", ".join(self.models) or "any other model"
        if len(self.weights) == 1:
            return f"{names} -> {next(iter(self.weights))}"
        total = sum(self.weights.values())
        shares = (f"{name} {100 * part / total:.4g} %" for name, part in self.weights.items())
        return f"{names} -> {', '.join(shares)}"


class RewritePlan(NamedTuple):
    """The InferenceModelRewrite of a router.

    Attributes:
        api_version: The apiVersion that the endpoint picker watches.
        rules: The rules; rules for all names come last.
    """

    name: str
    api_version: str
    rules: tuple[RewriteRule, ...]

    def describe(self) -> str:
        """Return the rules as text."""
        return "; ".join(rule.describe() for rule in self.rules)


def plan_rewrites(service: str, router: RoleArgs, family: EppFamily) -> RewritePlan | None:
    """Plan the rewrites of a router role, or None if it has none or its picker supports none."""
    if not router.model_rewrites or family.rewrite_api is None:
        return None
    rules = [
        RewriteRule(
            tuple(rewrite.models or ()),
            # InferenceModelRewrite rejects a weight of 0.
            {
                target.model: 1 if target.weight is None else target.weight
                for target in rewrite.targets
                if target.weight != 0
            },
        )
        for rewrite in router.model_rewrites
    ]
    rules.sort(key=lambda rule: not rule.models)
    return RewritePlan(object_names.model_rewrite(service), family.rewrite_api, tuple(rules))


def build_inference_model_rewrite(meta: ServiceMeta, plan: RewritePlan, pool: str) -> Manifest:
    """Build the InferenceModelRewrite for a pool."""
    rules: list[Manifest] = []
    for rule in plan.rules:
        matches = [{"model": {"type": "Exact", "value": name}} for name in rule.models]
        targets = [
            {"modelRewrite": name, "weight": weight} for name, weight in rule.weights.items()
        ]
        rules.append({**({"matches": matches} if matches else {}), "targets": targets})
    spec = {"poolRef": build_pool_reference(pool), "rules": rules}
    object_meta = build_metadata(meta, plan.name)
    return build_object(plan.api_version, object_names.REWRITE_KIND, object_meta, spec=spec)


def build_inference_objectives(
    meta: ServiceMeta, picker: EndpointPickerArgs, family: EppFamily, pool: str
) -> Iterator[Manifest]:
    """Build an InferenceObjective for each service level; `pool` is the name of the pool."""
    if picker.service_levels is None or family.objective_api is None:
        return
    version, ref = family.objective_api, build_pool_reference(pool)
    pools = {"poolRefs": [ref]} if version == LLM_D_V1_API else {"poolRef": ref}
    for level in picker.service_levels.levels:
        name = object_names.inference_objective(meta.service, level.name)
        spec = {"priority": level.priority, **pools}
        yield build_object(
            version, object_names.OBJECTIVE_KIND, build_metadata(meta, name), spec=spec
        )
