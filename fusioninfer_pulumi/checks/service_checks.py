"""Checks of a service: names, model, generated containers, reachability, scheduling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.model import AccessMode, hub_name
from fusioninfer_pulumi.api.provenance import Provenance
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import list_serving_roles
from fusioninfer_pulumi.checks.cross_service_checks import count_max_replicas
from fusioninfer_pulumi.checks.routing_checks import SERVING_PORTS_DIFFER
from fusioninfer_pulumi.checks.scheduling_checks import check_kueue_labels, check_scheduling
from fusioninfer_pulumi.engines.argument_tables import load_argument_table
from fusioninfer_pulumi.engines.engine_commands import ENGINES, find_serving_container
from fusioninfer_pulumi.engines.model_arguments import is_gated
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    quote_value,
    warning,
)
from fusioninfer_pulumi.kube import object_names, quantity
from fusioninfer_pulumi.kube.object_names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.pods.model_files import DIGEST_LENGTH
from fusioninfer_pulumi.presets.model_catalogue import get_weights_size, suggest_model
from fusioninfer_pulumi.rules.common import (
    INVALID_FORMAT,
    NAME_TOO_LONG,
    OUTPUT_NOT_ALLOWED,
    SET_BY_LIBRARY,
    SET_TWICE,
    UNKNOWN_VALUE,
)

CACHE_BELOW_MODEL_SIZE = Rule("cache-below-model-size")
ACCESS_MODE_TOO_NARROW = Rule("access-mode-too-narrow")
TOKEN_FOR_GATED_MODEL = Rule("token-for-gated-model")


def check_model_cache(service: BuiltService) -> Iterator[Finding]:
    """Check the access modes and the size of the claim that `model.cache.storage` creates."""
    args, model = service.args, service.args.model
    if model is None or model.cache is None:
        return
    roles, storage = list_serving_roles(args.roles), model.cache.storage
    if storage is None:
        return
    groups = 1 if args.groups is None else args.groups
    pod_count = groups * sum(role.replicas * role.nodes for role in roles)
    shared_modes = {AccessMode.READ_WRITE_MANY, AccessMode.READ_ONLY_MANY}
    if pod_count > 1 and shared_modes.isdisjoint(storage.access_modes):
        unit = "pod" if AccessMode.READ_WRITE_ONCE_POD in storage.access_modes else "node"
        # Single-pod replicas may all run on one node.
        is_certain = unit == "pod" or any(role.nodes > 1 for role in roles)
        make_finding = error if is_certain else warning
        message = f"allows one {unit}, but {pod_count} pods mount the claim; use ReadWriteMany"
        location = ("model", "cache", "storage", "accessModes")
        yield make_finding(ACCESS_MODE_TOO_NARROW, location, message)
    size, weights = storage.size, get_weights_size(model)
    if weights is not None and quantity.parse(size) < weights:
        # If the size is from the model catalogue, the weights may have another precision.
        make_finding = error if model.size is not None else warning
        message = f"must be at least {weights / 2**30:.0f} GiB, got {size}"
        location = ("model", "cache", "storage", "size")
        yield make_finding(CACHE_BELOW_MODEL_SIZE, location, message)


def check_presets(provenance: Provenance) -> Iterator[Finding]:
    """Check the model's name and, for generated containers, `engine.version` and the token."""
    args, model = provenance.spec, provenance.spec.model
    name = None if model is None else hub_name(model.uri)
    similar = None if model is None else suggest_model(model)
    if similar is not None:
        message = f"unknown model {name}; did you mean {similar}? Otherwise set model.config"
        yield warning(UNKNOWN_VALUE, ("model", "uri"), message)
    for position in sorted(provenance.generated_roles):
        yield from _check_release(("roles", position), args.roles[position], args)
    lacks_token = model is not None and model.token_secret is None
    if provenance.generated_roles and lacks_token and name is not None and is_gated(name):
        message = f"is missing, but {name} is a gated model; set it to a Secret with a token"
        yield warning(TOKEN_FOR_GATED_MODEL, ("model", "tokenSecret"), message)


def _check_release(
    location: Location, role: RoleArgs, args: InferenceServiceArgs
) -> Iterator[Finding]:
    """Report an unknown `engine.version`, or one that conflicts with the template's image."""
    engine_location = (*location, "engine") if role.engine is not None else ("engine",)
    engine = role.engine or args.engine
    if engine is None or engine.version is None:
        return
    template = role.template or {}
    if (template.get("spec") or {}).get("containers"):
        image = find_serving_container(template, role.container).get("image")
        if image is not None:
            message = f"conflicts with the template's image {image}; remove one of them"
            yield error(SET_TWICE, (*engine_location, "version"), message)
            return
    releases = load_argument_table(engine.name.value).releases
    if engine.version not in releases:
        closest = closest_name(engine.version, releases, cutoff=0.9)
        hint = (
            f"did you mean {closest}?"
            if closest
            else f"the newest known release is {releases[-1]}."
        )
        message = (
            f"unknown {ENGINES[engine.name.value].title} release {engine.version}; {hint} "
            "The engine's arguments are not checked"
        )
        yield warning(UNKNOWN_VALUE, (*engine_location, "version"), message)


PREFILL_DECODE_WITHOUT_ROUTER = Rule("prefill-decode-without-router")

#: Role names that would give a role's objects the same names as the router's objects, such as
#: `SERVICE-epp` for role `epp`.
RESERVED_ROLE_NAMES = frozenset(
    format_name("").removeprefix("-")
    for format_name in (
        object_names.endpoint_picker,
        object_names.endpoint_picker_config,
        object_names.inference_pool,
        object_names.http_route,
        object_names.gateway,
    )
)


def _check_name(service: BuiltService) -> Iterator[Finding]:
    name = service.plan.service
    if DNS_1035_LABEL.fullmatch(name) is None or len(name) > DNS_LABEL_LIMIT:
        message = (
            "must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {quote_value(name)}"
        )
        yield error(INVALID_FORMAT, ("metadata", "name"), message)


def _check_namespace(service: BuiltService) -> Iterator[Finding]:
    """Reject an Output as namespace if generated names or queries contain the namespace."""
    plan, monitoring = service.plan, service.args.monitoring
    if not is_output(plan.namespace):
        return
    features = {
        "autoscaling.target": any(
            role.autoscaling is not None and role.autoscaling.target is not None
            for role in service.args.roles
        ),
        "monitoring.alerts": monitoring is not None and monitoring.alerts is not None,
        "monitoring.dashboards": monitoring is not None and monitoring.dashboards is not None,
        "endpointPicker.metrics Authenticated": plan.picker is not None
        and plan.picker.epp.args.metrics is MetricsMode.AUTHENTICATED,
        "referenceGrants": plan.routing is not None
        and bool(plan.routing.router.reference_grants)
        and any(grant.from_namespace is plan.namespace for grant in plan.routing.grants),
    }
    features_in_use = [name for name, is_used in features.items() if is_used]
    if features_in_use:
        message = (
            "must be a string, got a pulumi Output, because names or queries of "
            f"{', '.join(features_in_use)} contain it: pass the name, and depend on the Namespace "
            "with ResourceOptions(depends_on=[...])"
        )
        yield error(OUTPUT_NOT_ALLOWED, ("metadata", "namespace"), message)


def _check_role_names(service: BuiltService) -> Iterator[Finding]:
    reserved = ", ".join(sorted(RESERVED_ROLE_NAMES))
    for role in service.plan.roles:
        if role.name in RESERVED_ROLE_NAMES:
            message = f'"{role.name}" is reserved for the router\'s objects'
            location = ("roles", role.position, "name")
            yield error(SET_BY_LIBRARY, location, f"{message}; reserved names: {reserved}")


def _check_name_lengths(service: BuiltService) -> Iterator[Finding]:
    """Check the lengths of object names, and of names and labels that controllers derive."""
    plan, model = service.plan, service.args.model
    service_name, routing = plan.service, plan.routing
    # Field, kind, name and maximum name length of each object. Names that are limited to the length
    # of a DNS label are also label values.
    names: list[tuple[Location, str, str, int]] = []
    for role in plan.roles:
        if role.lws:
            longest = role.lws[-1]
            replicas = count_max_replicas(role, longest)
            limit = object_names.leader_worker_set_limit(role.nodes, replicas)
            name_field = ("roles", role.position, "name")
            names.append((name_field, "LeaderWorkerSet", longest.name, limit))
        if plan.rollout.pull_images:
            pull_name = object_names.image_pull(service_name, role.name, 0)
            names.append((("rollout", "pullImages"), "DaemonSet", pull_name, DNS_LABEL_LIMIT))
    if model is not None and model.cache is not None and model.cache.warm_up:
        job_name = object_names.model_warm_up(service_name, "0" * DIGEST_LENGTH)
        names.append((("model", "cache", "warmUp"), "Job", job_name, DNS_LABEL_LIMIT))
    if routing is not None and routing.router.has_endpoint_picker:
        picker_name = object_names.endpoint_picker(service_name)
        names.append((("metadata", "name"), "endpoint picker", picker_name, DNS_LABEL_LIMIT))
    if routing is not None and routing.gateway is not None:
        names.append((("metadata", "name"), "Gateway", routing.gateway.name, DNS_LABEL_LIMIT))
    for location, kind, name, limit in names:
        if len(name) > limit:
            message = (
                f"the name of {kind} {name} has {len(name)} characters, at most {limit} are "
                f"allowed; shorten the name of the service or role by {len(name) - limit}"
            )
            yield error(NAME_TOO_LONG, location, message)


def _check_reachability(service: BuiltService) -> Iterator[Finding]:
    """Report roles and ports that the Service does not reach if there is no endpoint picker."""
    plan = service.plan
    if plan.shape.has_endpoint_picker:
        return
    missing, remedy = "router", "add a role of componentType router"
    if plan.routing is not None:
        missing, remedy = "endpoint picker", "remove endpointPicker.enabled: false"
    if plan.shape.is_disaggregated:
        message = (
            f"no {missing}: nothing pairs prefill with decode, and clients reach only the "
            f"decoders; {remedy}"
        )
        yield warning(PREFILL_DECODE_WITHOUT_ROUTER, ("roles",), message)
    entry_roles = [role for role in plan.roles if role.component_type in plan.shape.entry_types]
    for role in entry_roles:
        if role.pods.command.port_count == 1:
            continue
        is_explicit = role.args.parallelism is not None and role.args.parallelism.port_per_rank
        make_finding = error if is_explicit else warning
        field = ("parallelism", "portPerRank") if is_explicit else ()
        message = (
            f'role "{role.name}" serves on ports {role.pods.ports_text}, but the Service reaches '
            f"only {role.pods.port}, so the other ranks receive no requests; {remedy}, or let the "
            "ranks share a port"
        )
        yield make_finding(SERVING_PORTS_DIFFER, ("roles", role.position, *field), message)
    ports = {role.pods.port for role in entry_roles}
    if len(ports) > 1:
        role_ports = ", ".join(f"{role.name} {role.pods.port}" for role in entry_roles)
        service_port = entry_roles[0].pods.port
        message = (
            f"the roles serve on different ports ({role_ports}): the Service reaches only "
            f"{service_port}; give them one port"
        )
        yield warning(SERVING_PORTS_DIFFER, ("roles",), message)


CHECKS: tuple[Callable[[BuiltService], Iterable[Finding]], ...] = (
    check_model_cache,
    _check_name,
    _check_namespace,
    _check_role_names,
    _check_name_lengths,
    check_scheduling,
    check_kueue_labels,
    _check_reachability,
)
