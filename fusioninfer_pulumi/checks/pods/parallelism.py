"""Checks of a role's `parallelism`: whether pods have room for it, and the engine takes it."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.parallelism import size_findings
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.rules import ACCELERATORS_TOO_FEW
from fusioninfer_pulumi.engines.sizes import Sizes
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.rules.common import ARGUMENTS_UNREADABLE, FIELD_WITHOUT_EFFECT


def parallelism_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the sizes of a role whose engine is known."""
    args, at, engine = ctx.role.parallelism, ctx.at("parallelism"), pods.command.engine
    if args is None or engine is None:
        return
    if not sizes_refused(ctx.role):
        reasons = (
            shortage(ctx.role, pods.command, accelerators(pod.template))
            for pod in pods.each
            if one_rank_each(pod.template)
        )
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is not None:
            yield error(ACCELERATORS_TOO_FEW, at, reason)
    refused = engine.check_sizes(
        Sizes(
            tensor=args.tensor,
            rpc_port=args.data_rpc_port,
            expert=args.expert,
            port_per_rank=args.port_per_rank,
        )
    )
    yield from (finding.under(*at) for finding in refused)
    if args.data_rpc_port is not None and ctx.nodes == 1 and not refused:
        message = "has no effect: a replica is a single pod"
        yield warning(FIELD_WITHOUT_EFFECT, (*at, "dataRPCPort"), message)
    if not pods.command.readable:
        yield warning(
            ARGUMENTS_UNREADABLE,
            at,
            "arguments that cannot be read here may contradict it: the engine takes the last of "
            "two",
        )


def shortage(role: RoleArgs, command: EngineCommand, have: int) -> str | None:
    """Why a pod with so many accelerators cannot hold its share of a model; None when it can.

    A pod that asks for none through resources may have them otherwise.
    """
    args, nodes = role.parallelism, role.nodes
    if args is None or not have:
        return None
    sizes = {"tensor": args.tensor, "pipeline": args.pipeline, "data": args.data}
    need = args.ranks // nodes
    over = f" over {nodes} pods" if nodes > 1 else ""
    if command.engine is not None and command.engine.copies_share_accelerators(command):
        need //= args.data or 1  # its copies share the accelerators of tensor
        del sizes["data"]
    elif args.data_local is not None and nodes > 1:
        del sizes["data"]
        sizes["dataLocal"], over = args.data_local, ""
    if need <= have:
        return None
    explicit = " x ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
    equals = "=" if over or " x " in explicit else "needs"
    return f"{explicit}{over} {equals} {need} accelerators in each pod, but the pod asks for {have}"


def sizes_refused(role: RoleArgs) -> bool:
    """Whether the sizes of a role do not fit together: what they need is then not to be said."""
    args = role.parallelism
    count = role.multinode.node_count if role.multinode is not None else None
    return args is not None and any(size_findings((), args, count))
