"""Checks of a service's model: its files, its cache, and containers generated for it."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.model import AccessMode, ModelArgs, hub_name
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import serving
from fusioninfer_pulumi.checks.pods.engine_checks import TOKEN_FOR_GATED_MODEL
from fusioninfer_pulumi.engines.argument_tables import load_argument_table
from fusioninfer_pulumi.engines.engine_commands import ENGINES, find_serving_container
from fusioninfer_pulumi.engines.model_arguments import is_gated
from fusioninfer_pulumi.findings import Finding, Location, Rule, closest_name, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.pods.model_files import model_files
from fusioninfer_pulumi.presets.expansion import library_generates_container
from fusioninfer_pulumi.presets.model_catalogue import (
    find_similar_model,
    is_known_model,
    model_bytes,
)
from fusioninfer_pulumi.rules.common import (
    FIELD_WITHOUT_EFFECT,
    STATED_TWICE,
    UNKNOWN_VALUE,
)

CACHE_BELOW_MODEL_SIZE = Rule("cache-below-model-size")
ACCESS_MODE_TOO_NARROW = Rule("access-mode-too-narrow")


def model_findings(built: BuiltService) -> Iterator[Finding]:
    """Check how the pods get the service's model, and the claim that caches it."""
    args, service, model = built.args, built.plan.service, built.args.model
    if model is None or model.cache is None or model_files(service, model) is None:
        return
    roles, groups = serving(args.roles), 1 if args.groups is None else args.groups
    pods = groups * sum(role.replicas * role.nodes for role in roles)
    storage = model.cache.storage
    if storage is not None:
        shared = {AccessMode.READ_WRITE_MANY, AccessMode.READ_ONLY_MANY}
        if pods > 1 and shared.isdisjoint(storage.access_modes):
            # Single pods may run on one node.
            alone = AccessMode.READ_WRITE_ONCE_POD in storage.access_modes
            make_finding = error if alone or any(role.nodes > 1 for role in roles) else warning
            message = f"allows one {'pod' if alone else 'node'}, but {pods} pods mount the claim"
            at = ("model", "cache", "storage", "accessModes")
            yield make_finding(ACCESS_MODE_TOO_NARROW, at, f"{message}; use ReadWriteMany")
        size = storage.size
        weights = model.size or model_bytes(model, hub_name(model.uri) or "")
        if weights is not None and quantity.parse(size) < quantity.parse(weights):
            amount = f"{quantity.parse(weights) / 2**30:.0f} GiB"
            at = ("model", "cache", "storage", "size")
            # A known model's weights may be those of another precision.
            make_finding = error if model.size is not None else warning
            yield make_finding(CACHE_BELOW_MODEL_SIZE, at, f"must be at least {amount}, got {size}")


def check_presets(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Check the fields that only containers of the library read."""
    if args.model is not None:
        yield from _check_model_name(args.model)
    generated = [library_generates_container(args, role) for role in args.roles]
    for index, role in enumerate(args.roles):
        if role.component_type is ComponentType.ROUTER:
            continue
        if generated[index]:
            yield from _check_release(("roles", index), role, args)
        elif role.gpus is not None:
            message = (
                "has no effect: the template sets the image; set its resources there, or set engine"
            )
            yield error(FIELD_WITHOUT_EFFECT, ("roles", index, "gpus"), message)
    if any(generated) and args.model is not None:
        yield from _check_token(args.model)
        return
    if args.engine is not None:
        message = "has no effect: every role has its own container"
        yield error(FIELD_WITHOUT_EFFECT, ("engine",), message)


def _check_release(at: Location, role: RoleArgs, args: InferenceServiceArgs) -> Iterator[Finding]:
    """Check `engine.version` against the template's image, the known releases and the model."""
    place = (*at, "engine") if role.engine is not None else ("engine",)
    engine = role.engine or args.engine
    if engine is None or engine.version is None:
        return
    template = role.template or {}
    if (template.get("spec") or {}).get("containers"):
        image = find_serving_container(template, role.container).get("image")
        if image is not None:
            message = f"conflicts with the template's image {image}; remove one of them"
            yield error(STATED_TWICE, (*place, "version"), message)
            return
    releases = load_argument_table(engine.name.value).releases
    if engine.version not in releases:
        near = closest_name(engine.version, releases, cutoff=0.8)
        hint = f"did you mean {near}?" if near else f"the newest known is {releases[-1]}."
        message = (
            f"unknown release of {ENGINES[engine.name.value].title}: {engine.version}; {hint} "
            "Its arguments are not checked"
        )
        yield warning(UNKNOWN_VALUE, (*place, "version"), message)


def _check_model_name(model: ModelArgs) -> Iterator[Finding]:
    """Warn of a model whose name differs from a known one by a letter or two."""
    name = hub_name(model.uri)
    if name is None or model.config is not None or is_known_model(name):
        return
    meant = find_similar_model(name)
    if meant is not None:
        message = f"unknown model {name}; did you mean {meant}? Otherwise set model.config"
        yield warning(UNKNOWN_VALUE, ("model", "uri"), message)


def _check_token(model: ModelArgs) -> Iterator[Finding]:
    name = hub_name(model.uri)
    if name is not None and model.token_secret is None and is_gated(name):
        message = f"is missing, and {name} is gated: name a Secret with a token"
        yield warning(TOKEN_FOR_GATED_MODEL, ("model", "tokenSecret"), message)
