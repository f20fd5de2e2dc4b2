"""Turns a role's `parallelism` into its engine's arguments and a launcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.parallelism import ParallelismArgs, size_findings
from fusioninfer_pulumi.api.role import Launcher, MultinodeArgs, RoleArgs
from fusioninfer_pulumi.engines.added_arguments import with_arguments
from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.data_parallel_launch import LEADER_ADDRESS_ENV
from fusioninfer_pulumi.engines.flags import has_flag
from fusioninfer_pulumi.engines.kv_settings import SettingError
from fusioninfer_pulumi.engines.launch import default_launcher
from fusioninfer_pulumi.engines.launch_types import with_words
from fusioninfer_pulumi.engines.parallel_arguments import (
    Sizes,
    contradictions,
    missing_arguments,
    wanted_arguments,
)
from fusioninfer_pulumi.findings import Finding, error, info, join, warning
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.kv_transfer import why_unknown
from fusioninfer_pulumi.pods.templates import Place, places, with_container, with_template

_POD_IP = {"name": LEADER_ADDRESS_ENV, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def parallel_role(position: int, role: RoleArgs) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        position: Index of the role in the spec.
        role: The role, valid by the spec's rules.

    Returns:
        The role with the arguments, the launcher and the number of nodes written out, and what is
        to be said. As it was where something is wrong.
    """
    given = role.parallelism
    listed = list(places(position, role))
    if given is None or not listed:
        return _addressed(position, role), []
    at = join("roles", position, "parallelism")
    command = read_command(listed[0].container)
    launcher = _launcher(role, command, listed)
    if command.engine is None:
        message = f"sets arguments of vLLM or SGLang, but {why_unknown(command)}"
        return role, [error(at, f"{message}; write the arguments yourself, with multinode")]
    findings = list(_shortage(at, role, listed, command))
    findings += _unfit(at, given, role, command)
    sizes = _sizes(given, role.nodes, launcher)
    built = role
    for place in listed:
        if place.leads or launcher is not Launcher.RAY:
            built, found = _completed(built, place, sizes, given, launcher)
            findings += found
    counted = role.multinode is not None and role.multinode.node_count is not None
    if not counted and role.nodes > 1:
        findings.append(info(at, _pods(given)))
    stated = MultinodeArgs.model_construct(node_count=role.nodes, launcher=launcher)
    if role.nodes > 1:
        built = built.model_copy(update={"multinode": stated})
    return _addressed(position, built), findings


def shortage(role: RoleArgs, command: EngineCommand, have: int) -> str | None:
    """Says why a pod cannot hold its share of a model.

    Args:
        role: The role, whose `parallelism` says how the model is split and copied.
        command: The engine's command line.
        have: Accelerators that the pod asks for; 0 when it asks for none through resources.

    Returns:
        The arithmetic, None when it fits or nothing can be said.
    """
    given, nodes = role.parallelism, role.nodes
    if given is None or not have:
        return None
    sizes = {"tensor": given.tensor, "pipeline": given.pipeline, "data": given.data}
    need = given.ranks // nodes
    over = f" over {nodes} pods" if nodes > 1 else ""
    if command.engine == "sglang" and has_flag(command.arguments, "--enable-dp-attention"):
        need //= given.data or 1  # its copies share the accelerators of tensor
        del sizes["data"]
    elif given.data_local is not None and nodes > 1:
        del sizes["data"]
        sizes["dataLocal"], over = given.data_local, ""
    if need <= have:
        return None
    stated = " x ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
    equals = "=" if over or " x " in stated else "needs"
    return f"{stated}{over} {equals} {need} accelerators in each pod, but the pod asks for {have}"


def sizes_refused(role: RoleArgs) -> bool:
    """Whether the sizes of a role do not fit together: what they need is then not to be said."""
    given = role.parallelism
    count = role.multinode.node_count if role.multinode is not None else None
    return given is not None and any(size_findings((), given, count))


def _shortage(
    at: str, role: RoleArgs, listed: list[Place], command: EngineCommand
) -> Iterator[Finding]:
    if sizes_refused(role):
        return
    for place in listed:
        if not one_rank_each(place.template):
            continue
        said = shortage(role, command, accelerators(place.template))
        if said is not None:
            yield error(at, said)
            return


def _unfit(
    at: str, given: ParallelismArgs, role: RoleArgs, command: EngineCommand
) -> Iterator[Finding]:
    """What the engine has no argument for."""
    if command.engine == "sglang":
        if given.data_rpc_port is not None:
            yield error(f"{at}.dataRPCPort", "is vLLM's; SGLang has no such argument")
        if given.expert and given.tensor is None:
            yield error(f"{at}.expert", "needs tensor: SGLang spreads experts over that many")
    elif (given.data_rpc_port is not None) and role.nodes == 1:
        yield warning(f"{at}.dataRPCPort", "has no effect: a replica is a single pod")
    if not command.readable:
        yield warning(
            at,
            "arguments that cannot be read here may contradict it: the engine takes the last of "
            "two",
        )


def _launcher(role: RoleArgs, command: EngineCommand, listed: list[Place]) -> Launcher | None:
    if role.multinode is not None and role.multinode.launcher is not None:
        return role.multinode.launcher
    if role.nodes == 1:
        return None
    workers = [place.container for place in listed if not place.leads]
    if any(each.get("command") or each.get("args") for each in workers):
        return Launcher.NONE  # whoever writes two commands launches by hand
    given = role.parallelism
    data = given.data if given is not None else None
    if command.engine == "vllm" and data is not None and data % role.nodes == 0:
        return Launcher.DATA_PARALLEL
    return Launcher(default_launcher(command))


def _sizes(given: ParallelismArgs, nodes: int, launcher: Launcher | None) -> Sizes:
    local = None
    if nodes > 1 and given.data is not None and launcher is not Launcher.MULTIPROCESSING:
        local = given.data_local or (given.data // nodes if given.data % nodes == 0 else None)
    return Sizes(
        given.tensor,
        given.pipeline,
        given.data,
        local,
        given.data_rpc_port if nodes > 1 else None,
        given.expert,
    )


def _completed(
    role: RoleArgs,
    place: Place,
    sizes: Sizes,
    given: ParallelismArgs,
    launcher: Launcher | None,
) -> tuple[RoleArgs, list[Finding]]:
    container = place.container
    if not (place.leads or container.get("command") or container.get("args")):
        # A worker without words of its own runs what the leader runs, which is complete already.
        leader = next(places(0, role)).container
        words = {key: leader[key] for key in ("command", "args") if key in leader}
        return _replaced(role, place, {**container, **words}), []
    command = read_command(container)
    if command.engine is None:
        return role, []  # a worker with some other command of its own
    wanted = wanted_arguments(command.engine, sizes)
    said = [
        error(place.command_at, text)
        for text in contradictions(command, wanted, expert=given.expert)
    ]
    if said:
        return role, said
    added = missing_arguments(command, wanted)
    if launcher is Launcher.RAY and (given.data or 1) > 1 and command.engine == "vllm":
        backend = ("--data-parallel-backend", "-dpb")
        added += [] if has_flag(command.arguments, *backend) else [backend[0], "ray"]
    try:
        edit = with_arguments(container, added)
    except SettingError as problem:
        return role, [
            error(
                place.command_at,
                f"{' '.join(added)} cannot be added to it: {problem}; write the command as a list",
            )
        ]
    return _replaced(role, place, with_words(container, edit)), []


def _replaced(role: RoleArgs, place: Place, container: dict[str, Any]) -> RoleArgs:
    template = with_container(place.template, str(container["name"]), lambda _: container)
    return with_template(role, place.field, template)


def _addressed(position: int, role: RoleArgs) -> RoleArgs:
    """Lets leaders know their own address, where the launcher names it."""
    launcher = role.multinode.launcher if role.multinode is not None else None
    if launcher is not Launcher.DATA_PARALLEL or role.nodes == 1:
        return role
    for place in places(position, role):
        if place.leads:
            name = str(place.container["name"])
            template = with_container(place.template, name, lambda each: with_env(each, [_POD_IP]))
            return with_template(role, place.field, template)
    return role


def _pods(given: ParallelismArgs) -> str:
    if given.data is not None and given.data_local is not None:
        share = f"data {given.data} / dataLocal {given.data_local}"
    else:
        share = f"one for each of {given.pipeline} pipeline stages"
    return f"a replica has {given.pods} pods: {share}"
