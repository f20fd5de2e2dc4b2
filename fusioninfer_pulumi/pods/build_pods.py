"""Builds the pods of a role: the user's templates, changed by a list of passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_choice import EppChoice
from fusioninfer_pulumi.endpoint_pickers.picker_families import find_family
from fusioninfer_pulumi.engines.engine_commands import find_serving_container, find_serving_port
from fusioninfer_pulumi.engines.engine_presets import get_edition_defaults
from fusioninfer_pulumi.engines.launchers import choose_launcher
from fusioninfer_pulumi.engines.pair_compatibility import compute_pair_revision
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.kube.pulumi_outputs import content_digest
from fusioninfer_pulumi.pods.devices import add_device_claims, add_rdma
from fusioninfer_pulumi.pods.env_variables import add_kthena_variables, add_tracing
from fusioninfer_pulumi.pods.kv_cache import add_kv_addresses, add_kv_offloading, add_kv_transfer
from fusioninfer_pulumi.pods.model_files import add_model
from fusioninfer_pulumi.pods.multi_node import (
    add_parallelism,
    apply_launcher,
    declare_ports,
    record_engine_command,
    split_worker_template,
    trim_workers,
)
from fusioninfer_pulumi.pods.pd_sidecar import add_sidecar
from fusioninfer_pulumi.pods.pod import PD_ROLES, Context, Pass, PdSettings, Pod, RolePods
from fusioninfer_pulumi.pods.pod_metadata import add_topology_spread, set_metadata, set_scheduling
from fusioninfer_pulumi.pods.probes_and_shutdown import add_graceful_shutdown, add_health_probes
from fusioninfer_pulumi.schemas.kind_schema import POD_TEMPLATE
from fusioninfer_pulumi.schemas.schema_check import normalize_part

#: The passes, in execution order.
PASSES: tuple[Pass, ...] = (
    # Leader and workers may still share one template.
    add_model,
    add_device_claims,
    add_rdma,
    add_parallelism,  # after `add_model`: workers may get the leader's command with the model
    add_kv_offloading,  # after `add_parallelism`: the pod's memory depends on the sizes
    split_worker_template,
    # The next three passes need the command line before `apply_launcher` puts it into a script.
    add_kv_transfer,
    add_tracing,
    record_engine_command,
    apply_launcher,
    # The command line is final; these passes edit other fields.
    add_kv_addresses,
    declare_ports,
    add_health_probes,
    trim_workers,
    add_graceful_shutdown,
    add_kthena_variables,
    set_scheduling,
    set_metadata,
    add_sidecar,  # after `add_kthena_variables`: the sidecar must not get them
    add_topology_spread,
)


def build_pods(roles: Sequence[Context]) -> tuple[list[tuple[Context, RolePods]], list[Finding]]:
    """Run all passes on the pods of each role, then add the revisions."""
    contexts_and_pods, findings = [], []
    for ctx in roles:
        pods = ctx.initial_pods
        for add_feature in PASSES:
            pods, pass_findings = add_feature(pods, ctx)
            findings += pass_findings
        contexts_and_pods.append((ctx, pods))
    pd_commands = [pods.command for ctx, pods in contexts_and_pods if ctx.pd_settings is not None]
    pair_revision = compute_pair_revision(pd_commands) or ""
    return [
        (ctx, _add_revisions(pods, pair_revision if ctx.pd_settings is not None else ""))
        for ctx, pods in contexts_and_pods
    ], findings


def _add_revisions(pods: RolePods, pair_revision: str) -> RolePods:
    """Normalize the templates as the API server does, and add the revision and pair revision."""
    pair_label = {labels.PAIR_REVISION: pair_revision} if pair_revision else {}
    for pod in pods.all:
        metadata = {**pod.template["metadata"]}
        metadata["labels"] = {**metadata["labels"], **pair_label}
        template = {**pod.template, "metadata": metadata}
        pods = pods.with_pod(replace(pod, template=normalize_part(template, POD_TEMPLATE)))
    templates = [pods.leader.template, None if pods.worker is None else pods.worker.template]
    return replace(pods, revision=content_digest(templates, 10), pair_revision=pair_revision)


def build_contexts(
    meta: ServiceMeta, args: InferenceServiceArgs, shape: ServiceShape, epp_choice: EppChoice | None
) -> list[Context]:
    """Return the context of each serving role. Without a router `epp_choice` is None."""
    roles = [
        (position, role, build_initial_pods(position, role))
        for position, role in enumerate(args.roles)
        if role.component_type is not ComponentType.ROUTER
    ]
    pd_settings = _derive_pd_settings(args, shape, roles, epp_choice)
    return [
        Context(
            meta=meta,
            args=args,
            position=position,
            role=role,
            initial_pods=initial_pods,
            launcher=_choose_launcher(role, initial_pods),
            pd_settings=pd_settings if role.component_type in PD_ROLES else None,
            shape=shape,
        )
        for position, role, initial_pods in roles
    ]


def build_initial_pods(position: int, role: RoleArgs) -> RolePods:
    """Return the pods of a role before the first pass."""
    fields = {"template": role.template, "leaderTemplate": role.leader_template}
    field, template = next(
        (name, template) for name, template in fields.items() if template is not None
    )
    name = str(find_serving_container(template, role.container)["name"])
    leader = Pod(
        path=("roles", position, field),
        initial_template=template,
        template=template,
        container_name=name,
        is_leader=True,
    )
    worker_template = role.worker_template
    if worker_template is None:
        return RolePods(leader)
    worker = Pod(
        path=("roles", position, "workerTemplate"),
        initial_template=worker_template,
        template=worker_template,
        container_name=str(find_serving_container(worker_template, role.container or name)["name"]),
        is_leader=False,
    )
    return RolePods(leader, worker)


def _choose_launcher(role: RoleArgs, pods: RolePods) -> Launcher | None:
    if role.nodes == 1:
        return None
    if role.multinode is not None and role.multinode.launcher is not None:
        return role.multinode.launcher
    command, worker = pods.leader.command, pods.worker
    sizes = role.parallelism if command.engine is not None else None
    if worker is not None:
        # A worker with its own command needs no launcher. `add_parallelism` copies the leader's
        # command to other workers, if there are sizes.
        gets_leader_command = sizes is not None and not worker.has_command
        if not gets_leader_command:
            return Launcher.NONE
    data_size = sizes.data if sizes is not None else None
    return choose_launcher(command.engine, role.nodes, data_size)


def _derive_pd_settings(
    args: InferenceServiceArgs,
    shape: ServiceShape,
    roles: Sequence[tuple[int, RoleArgs, RolePods]],
    epp_choice: EppChoice | None,
) -> PdSettings | None:
    """Return the settings of the pods that an endpoint picker with a sidecar pairs, or None."""
    if epp_choice is None or not shape.is_disaggregated or not epp_choice.pairs_pods:
        return None
    # A check reports an unknown image; the pods are then built for the default endpoint picker.
    family = epp_choice.family or find_family(get_edition_defaults(args.edition).pd_picker)
    assert family is not None, "the default image is in the table"
    if family.sidecar_image is None:
        return None
    prefillers = [
        (role, initial_pods.leader)
        for _, role, initial_pods in roles
        if role.component_type is ComponentType.PREFILLER
    ]
    # A check rejects prefill roles with different ports.
    first_role, first_leader = prefillers[0]
    return PdSettings(
        family=family,
        port=find_serving_port(first_leader.container, first_leader.command, first_role.port),
        prefill_serves_https=any(leader.command.serves_https for _, leader in prefillers),
    )
