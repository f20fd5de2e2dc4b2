"""Writes the commands of a replica that spans several nodes.

`ray`: the leader starts a ray cluster and the engine in it, the workers join (the documents'
form). `multiprocessing`: every node runs the engine with the engine's own multi-node arguments.
`data-parallel`: every node runs its share of vLLM's data parallel ranks, the leader serves.
`none`: commands stay as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.data_parallel_launch import data_parallel_launch
from fusioninfer_pulumi.engines.launch_types import Launch, LaunchError
from fusioninfer_pulumi.engines.own_launch import own_launch
from fusioninfer_pulumi.engines.ray_launch import ray_leader, ray_worker

__all__ = [
    "LAUNCHERS",
    "Launch",
    "LaunchError",
    "default_launcher",
    "leader_launch",
    "worker_launch",
]

LAUNCHERS = ("ray", "multiprocessing", "data-parallel", "none")


def default_launcher(command: EngineCommand) -> str:
    """The launcher where none is chosen: ray, as in the documents; SGLang has its own."""
    return "multiprocessing" if command.engine == "sglang" else "ray"


def leader_launch(container: Mapping[str, Any], launcher: str, nodes: int) -> Launch:
    """The leader's command line.

    Args:
        container: The serving container as in the pod template; it is not changed.
        launcher: One of `LAUNCHERS`.
        nodes: Pods of one replica; with one there is nothing to launch together.

    Returns:
        The leader's command and args.

    Raises:
        LaunchError: When the container cannot be launched this way, or there is no such launcher.
    """
    if _untouched(launcher, nodes):
        return _as_written(container)
    if launcher == "ray":
        return ray_leader(container)
    if launcher == "data-parallel":
        return data_parallel_launch(container, nodes, leader=True)
    return own_launch(container, nodes, leader=True)


def worker_launch(
    container: Mapping[str, Any], launcher: str, nodes: int, *, retry: bool = False
) -> Launch:
    """The command line of every other node.

    Args:
        container: The serving container as in the pod template; it is not changed.
        launcher: One of `LAUNCHERS`.
        nodes: Pods of one replica.
        retry: With ray, wait for the leader instead of ending when it is not up yet: for groups
            whose restart policy would recreate them all for that.

    Returns:
        The workers' command and args.

    Raises:
        LaunchError: When the container cannot be launched this way, or there is no such launcher.
    """
    if _untouched(launcher, nodes):
        return _as_written(container)
    if launcher == "ray":
        return ray_worker(container, retry=retry)
    if launcher == "data-parallel":
        return data_parallel_launch(container, nodes, leader=False)
    return own_launch(container, nodes, leader=False)


def _untouched(launcher: str, nodes: int) -> bool:
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher must be one of {', '.join(LAUNCHERS)}, got {launcher!r}")
    return launcher == "none" or nodes < 2


def _as_written(container: Mapping[str, Any]) -> Launch:
    args = container.get("args")
    return Launch(container.get("command") or [], args, None)
