"""Checks of the engine's release, and of its arguments against release, pods and launcher."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.field_rules import FieldRule, check_fields
from fusioninfer_pulumi.api.role import StartupPolicy
from fusioninfer_pulumi.engines.argument_checks import check_arguments
from fusioninfer_pulumi.engines.argument_tables import load_argument_table, parse_release
from fusioninfer_pulumi.engines.command_flags import get_plain_variables
from fusioninfer_pulumi.engines.launchers import COMMAND_EDITING_LAUNCHERS
from fusioninfer_pulumi.engines.model_arguments import check_accelerators
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube.resource_requests import (
    count_accelerators,
    has_one_rank_per_accelerator,
)
from fusioninfer_pulumi.pods.pod import PD_ROLES, Context, RolePods
from fusioninfer_pulumi.rules.common import UNSUPPORTED_BY_ENGINE

LAUNCHER_CONTRADICTED = Rule("launcher-contradicted")
ENGINE_RELEASE_UNSUPPORTED = Rule("engine-release-unsupported")


def check_engine_release(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Reject images of engine releases that are older than the oldest supported release."""
    for pod in pods.user_pods:
        engine, image = pod.initial_command.engine, pod.initial_command.image
        if engine is None or not image.is_stock or image.engine != engine.name:
            continue
        oldest = load_argument_table(engine.name).releases[0]
        if image.stock_release is not None and image.stock_release < parse_release(oldest):
            message = (
                f"{engine.title} {image.tag} is older than v{oldest}, the oldest supported "
                "release; use a newer image"
            )
            yield error(ENGINE_RELEASE_UNSUPPORTED, (*pod.container_path, "image"), message)


def check_engine_setup(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check the engine's arguments against accelerators, launcher and KV connector."""
    command, location, engine = pods.command, pods.leader.command_path, pods.command.engine
    counts = {count_accelerators(pod.template) for pod in pods.all}
    accelerators_per_pod = counts.pop() if len(counts) == 1 else 0
    # Parallel sizes are compared only if all pods request the same number of accelerators, and each
    # accelerator runs one rank. Device claims request none; Neuron devices run several ranks.
    if accelerators_per_pod and has_one_rank_per_accelerator(pods.leader.template):
        field = location if ctx.role.parallelism is None else ctx.locate("parallelism")
        for finding in check_accelerators(command, accelerators_per_pod, ctx.role.nodes):
            yield finding.with_location(*field)
    if ctx.launcher is not None and engine is not None:
        for finding in engine.multi_node.check_launcher(command, ctx.launcher):
            yield finding.with_prefix(*ctx.locate())
    if engine is not None:
        for finding in engine.kv_cache.check_connector(command):
            yield finding.with_location(*location)


def check_startup_policy(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn about a startup policy that deadlocks with the launcher."""
    has_probe = bool({"readinessProbe", "startupProbe"} & pods.leader.container.keys())
    waits_for_leader = ctx.role.startup_policy is StartupPolicy.LEADER_READY
    if waits_for_leader and has_probe and ctx.launcher in COMMAND_EDITING_LAUNCHERS:
        message = (
            f"LeaderReady deadlocks with launcher {ctx.launcher.value}: the leader is not ready "
            "before its workers have joined, but the workers are created after it is ready; use "
            "LeaderCreated"
        )
        yield warning(LAUNCHER_CONTRADICTED, ctx.locate("startupPolicy"), message)


def check_engine_arguments(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check the user's arguments against the image's release."""
    for pod in pods.user_pods:
        command, variables = pod.initial_command, get_plain_variables(pod.initial_container)
        # `pods/kv_cache.py` reports a transfer flag of prefillers and decoders that cannot be read;
        # `connector` is then the reason, a string.
        is_reported = ctx.role.component_type in PD_ROLES and isinstance(command.connector, str)
        ignored_flag = (
            command.engine.kv_cache.transfer_flag if is_reported and command.engine else None
        )
        for finding in check_arguments(command, variables, ignored=ignored_flag):
            yield finding.with_prefix(*pod.container_path)


def check_parallelism(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check a role's `parallelism` if its engine is known."""
    args, location, engine = ctx.role.parallelism, ctx.locate("parallelism"), pods.command.engine
    if args is None or engine is None:
        return
    unsupported = f"is not supported by {engine.title}; remove it"
    yield from check_fields(
        location,
        args,
        FieldRule(
            "data_rpc_port",
            unsupported,
            when=not engine.sizes.rpc_flags,
            rule=UNSUPPORTED_BY_ENGINE,
        ),
        FieldRule(
            "port_per_rank",
            unsupported,
            when=bool(args.port_per_rank) and not engine.sizes.rank_port_flags,
            rule=UNSUPPORTED_BY_ENGINE,
        ),
        FieldRule(
            "expert",
            f"requires tensor: {engine.title} distributes experts over the ranks of tensor",
            when=bool(args.expert) and engine.sizes.needs_expert_ranks and args.tensor is None,
            rule=UNSUPPORTED_BY_ENGINE,
        ),
    )
