"""The words that the command line understands."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

from fusioninfer_pulumi import __version__

if TYPE_CHECKING:
    from fusioninfer_pulumi.topology.capacity import NodePool

_MOST = 10**9
_SOURCE = (
    "a manifest file, a folder of them, `-` for standard input, or the folder of a Pulumi project"
)


class _Parser(argparse.ArgumentParser):
    """Says on one line what is wrong with the value of an option: its usage would not help."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2."""
        if message.startswith("argument ") and ": wanted " in message:
            self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}\n")
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """Builds the command line's parser."""
    top = _Parser(
        prog="fusioninfer-pulumi",
        description="Says what an LLM inference service becomes on Kubernetes, without a cluster.",
        epilog="Exit status: 0 fine (diff: no difference), 1 diff found a difference, 2 invalid.",
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    render = _command(commands, "render", "print all objects, in apply order")
    render.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    render.add_argument("--output", choices=("yaml", "json"), default="yaml", help="default: yaml")
    _placing(render)

    plan = _command(commands, "plan", "show topology, gang, capacity and findings")
    plan.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    _placing(plan)
    plan.add_argument(
        "--output", choices=("text", "json", "mermaid"), default="text", help="default: text"
    )
    room = plan.add_mutually_exclusive_group()
    room.add_argument(
        "--gpus",
        type=_counts,
        default=(),
        metavar="80,64,48",
        help="what runs with so many accelerators free, on nodes of the largest pod's size",
    )
    room.add_argument(
        "--nodes",
        type=_pools,
        default=(),
        metavar="8x8,4x4",
        help="what runs on these free nodes: count x accelerators",
    )

    check = _command(commands, "check", "validate only")
    check.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    _placing(check)

    convert = _command(
        commands, "convert", "write the services of another system's manifests as ours"
    )
    convert.add_argument(
        "sources", metavar="SOURCE", nargs="+", help="a manifest file, a folder of them, or `-`"
    )
    convert.add_argument("--output", choices=("yaml", "json"), default="yaml", help="default: yaml")

    diff = _command(commands, "diff", "show what changes between two sources, and what restarts")
    diff.add_argument("old", metavar="OLD", help=f"{_SOURCE}, or a file of rendered objects")
    diff.add_argument("new", metavar="NEW", nargs="?", help="the same, as it will be")
    diff.add_argument(
        "--base",
        metavar="REF",
        help="compare the only source in this git revision with the working tree",
    )
    diff.add_argument(
        "--output", choices=("text", "markdown", "json"), default="text", help="default: text"
    )
    return top


def _command(
    commands: argparse._SubParsersAction[_Parser],  # the type has no public name
    name: str,
    summary: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    command.add_argument("--strict", action="store_true", help="refuse warnings too")
    command.add_argument(
        "--allow-lossy",
        action="store_true",
        help="leave out, with a warning, what another system's manifest says and we do not offer",
    )
    command.add_argument("--stack", metavar="NAME", help="stack whose config a project reads")
    command.add_argument(
        "--show-secrets", action="store_true", help="print secrets of a project in plain text"
    )
    return command


def _placing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--inventory",
        metavar="POOLS",
        help="place all services on the node pools of this NodePoolInventory",
    )
    command.add_argument(
        "--previous",
        metavar="PLACED",
        help="where services run already: the JSON of an earlier plan --inventory",
    )


def _counts(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,10}", part) and int(part) <= _MOST for part in parts):
        raise argparse.ArgumentTypeError(f"wanted numbers such as 80,64,48, got {text!r}")
    return tuple(int(part) for part in parts)


def _pools(text: str) -> tuple[NodePool, ...]:
    from fusioninfer_pulumi.topology.capacity import NodePool

    pools = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,4})", part)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"wanted count x accelerators such as 8x8,4x4, got {text!r}"
            )
        pools.append(NodePool(int(match[1]), int(match[2])))
    return tuple(pools)
