"""Builds the pods of a role: the user's templates, changed by a list of passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_families import find_family
from fusioninfer_pulumi.endpoint_pickers.picker_intent import EppIntent, choose_epp_image
from fusioninfer_pulumi.engines.editions import get_edition_defaults
from fusioninfer_pulumi.engines.engine_commands import find_serving_container, find_serving_port
from fusioninfer_pulumi.engines.handshake import compute_pair_revision
from fusioninfer_pulumi.engines.launchers import choose_launcher
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest
from fusioninfer_pulumi.pods.devices import device_claims, rdma
from fusioninfer_pulumi.pods.env_variables import environment, tracing
from fusioninfer_pulumi.pods.kv_cache_offloading import kv_offloading
from fusioninfer_pulumi.pods.kv_cache_transfer import kv_addresses, kv_transfer
from fusioninfer_pulumi.pods.model_files import model, model_files
from fusioninfer_pulumi.pods.multi_node import (
    declared_ports,
    launch,
    parallelism,
    read_engine,
    split,
    worker_trim,
)
from fusioninfer_pulumi.pods.pd_sidecar import sidecar
from fusioninfer_pulumi.pods.pod import PD_ROLES, Context, Pairing, Pass, Pod, RolePods
from fusioninfer_pulumi.pods.pod_metadata import pod_labels, scheduling, spread
from fusioninfer_pulumi.pods.probes_and_shutdown import graceful_shutdown, health
from fusioninfer_pulumi.schemas.kind_schema import POD_TEMPLATE
from fusioninfer_pulumi.schemas.schema_check import normalize_part

#: The passes, in execution order.
PASSES: tuple[Pass, ...] = (
    # Fields that users could set in each of the templates.
    model,
    device_claims,
    rdma,
    parallelism,  # workers without a command take their leader's, with the model in it
    kv_offloading,  # reads from the sizes how many engines share a pod's memory
    split,
    # The command lines. Nothing reads them once a launcher has put them into a script.
    kv_transfer,
    tracing,
    read_engine,
    launch,
    # Everything but the command lines.
    kv_addresses,
    declared_ports,
    health,
    worker_trim,
    graceful_shutdown,
    environment,
    scheduling,
    pod_labels,
    sidecar,  # does not get the variables of `environment`
    spread,
)


def build_pods(all_ctx: Sequence[Context]) -> tuple[list[tuple[Context, RolePods]], list[Finding]]:
    """Run all passes on the pods of each role, then add revisions."""
    built, findings = [], []
    for ctx in all_ctx:
        pods = ctx.user_pods
        for add_feature in PASSES:
            pods, problems = add_feature(pods, ctx)
            findings += problems
        built.append((ctx, replace(pods, engine_command=pods.command)))
    pair = compute_pair_revision([pods.command for ctx, pods in built if ctx.pairing is not None])
    return [(ctx, _finish(pods, (ctx.pairing and pair) or "")) for ctx, pods in built], findings


def _finish(pods: RolePods, pair: str) -> RolePods:
    """Return pods in the form that the API server stores, with the pair revision and a revision."""
    more = {labels.PAIR_REVISION: pair} if pair else {}
    for pod in pods.all:
        metadata = {**pod.template["metadata"]}
        metadata["labels"] = {**metadata["labels"], **more}
        template = {**pod.template, "metadata": metadata}
        pods = pods.put(replace(pod, template=normalize_part(template, POD_TEMPLATE)))
    templates = [pods.leader.template, None if pods.worker is None else pods.worker.template]
    return replace(pods, revision=content_digest(templates, 10), pair_revision=pair)


def contexts(
    meta: ServiceMeta, args: InferenceServiceArgs, shape: ServiceShape, intent: EppIntent | None
) -> list[Context]:
    """Return the context of each role that runs pods; `intent` is None without a router."""
    roles = [
        (position, role, read_user_pods(position, role))
        for position, role in enumerate(args.roles)
        if role.component_type is not ComponentType.ROUTER
    ]
    pairing = _pairing(shape, roles, intent)
    files = model_files(meta.service, args.model) if args.model is not None else None
    return [
        Context(
            meta=meta,
            position=position,
            role=role,
            user_pods=user_pods,
            nodes=role.nodes,
            launcher=_launcher(role, user_pods),
            model=args.model,
            files=files,
            pairing=pairing if role.component_type in PD_ROLES else None,
            tracing=args.tracing,
            shape=shape,
        )
        for position, role, user_pods in roles
    ]


def read_user_pods(position: int, role: RoleArgs) -> RolePods:
    """Return the pods of a role as the user wrote them."""
    fields = {"template": role.template, "leaderTemplate": role.leader_template}
    field, leader = next(
        (name, template) for name, template in fields.items() if template is not None
    )
    name = str(find_serving_container(leader, role.container)["name"])
    pods = RolePods(Pod(("roles", position, field), leader, leader, name, is_leader=True))
    worker = role.worker_template
    if worker is None:
        return pods
    name = str(find_serving_container(worker, role.container or name)["name"])
    path = ("roles", position, "workerTemplate")
    return pods.put(Pod(path, worker, worker, name, is_leader=False, commands=pods.leader.commands))


def _launcher(role: RoleArgs, pods: RolePods) -> Launcher | None:
    if role.nodes == 1:
        return None
    if role.multinode is not None and role.multinode.launcher is not None:
        return role.multinode.launcher
    command = pods.leader.command
    split = role.parallelism if command.engine is not None else None
    worker = pods.worker
    # Two templates, or with `parallelism` two commands, are used unchanged.
    if worker is not None and (split is None or worker.has_command):
        return Launcher.NONE
    copies = split.data if split is not None else None
    return choose_launcher(command.engine, role.nodes, copies)


def _pairing(
    shape: ServiceShape,
    roles: Sequence[tuple[int, RoleArgs, RolePods]],
    intent: EppIntent | None,
) -> Pairing | None:
    """Return the settings that P/D pods share; None without a picker that pairs them."""
    if intent is None or not shape.is_prefill_decode or not intent.pairs:
        return None
    assert shape.router is not None, "only a router role has an intent"
    picker = shape.router.endpoint_picker or EndpointPickerArgs()
    _, family, _ = choose_epp_image((), picker, intent)
    defaults = get_edition_defaults(intent.edition)
    if family is None:
        # The router's plan rejects the image; the pods are built for the default endpoint picker.
        family = find_family(defaults.pd_picker)
        assert family is not None, "the default image is in the table"
    if family.sidecar_image is None:
        return None
    prefillers = [
        (role, user_pods.leader)
        for _, role, user_pods in roles
        if role.component_type is ComponentType.PREFILLER
    ]
    role, leader = prefillers[0]
    return Pairing(
        family=family,
        port=find_serving_port(leader.container, leader.command, role.port),
        prefill_https=any(pods.command.serves_https for _, pods in prefillers),
        registry=intent.registry,
        sidecar=defaults.sidecar,
    )
