"""Entry point of `fusioninfer-pulumi`: arguments, streams and exit status."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.extras import PluginError

if TYPE_CHECKING:
    from fusioninfer_pulumi.topology.capacity_model import NodePool


def _parse_gpus_per_pod(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 9999, got {text!r}")
    return int(text)


def _parse_free_gpus(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,9}", part) for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers such as 80,64,48, got {text!r}")
    return tuple(int(part) for part in parts)


def _parse_duration(text: str) -> float:
    from fusioninfer_pulumi.kube.durations import parse_duration

    duration = parse_duration(text)
    if not duration:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30s or 5m, got {text!r}")
    return float(duration)


def _parse_free_nodes(text: str) -> tuple[NodePool, ...]:
    from fusioninfer_pulumi.topology.capacity_model import NodePool

    parts = [re.fullmatch(r"([0-9]{1,6})x([0-9]{1,4})", part) for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(
            f"expected count x accelerators such as 8x8,4x4, got {text!r}"
        )
    return tuple(NodePool(int(part[1]), int(part[2])) for part in parts if part)


def _parse_rule(text: str) -> str:
    from fusioninfer_pulumi.rules.catalog import explain_unknown_rule

    if problem := explain_unknown_rule(text):
        raise argparse.ArgumentTypeError(problem)
    return text


#: The parameters of `add_argument`, by argument name.
_Arguments = Mapping[str, Mapping[str, Any]]


def _flag(help_text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": help_text}


def _option(metavar: str, help_text: str, **parameters: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": help_text, **parameters}


def _output(*choices: str, prefix: str = "") -> _Arguments:
    help_text = f"{prefix}default: {choices[0]}"
    return {"--output": {"choices": choices, "default": choices[0], "help": help_text}}


_READ_OPTIONS: _Arguments = {
    "--strict": _flag("treat warnings as errors"),
    "--allow-lossy": _flag(
        "ignore fields of another system's manifest that have no equivalent, with a warning"
    ),
    "--stack": _option("NAME", "stack whose configuration the Pulumi program reads"),
    "--show-secrets": _flag("print secrets of a program, and credentials in a diff, in plain text"),
    "--timeout": _option(
        "5m",
        "stop a Pulumi program after this time; default: 5m",
        type=_parse_duration,
        default=300.0,
    ),
    "--ignore": _option(
        "RULE",
        "hide warnings of this rule; may be repeated; errors are never hidden",
        type=_parse_rule,
        action="append",
        default=[],
    ),
    "--verbose": _flag("also print findings of severity info"),
}
_SOURCE_HELP = (
    "a manifest file, a directory of them (without subdirectories), `-` for standard input, or the "
    "directory of a Pulumi project"
)
_SOURCES: _Arguments = {**_READ_OPTIONS, "sources": _option("SOURCE", _SOURCE_HELP, nargs="+")}
_PLACEMENT_OPTIONS: _Arguments = {
    "--inventory": _option(
        "POOLS", "place all services on the node pools of this NodePoolInventory"
    ),
    "--previous": _option(
        "PLACED", "placement before this change: JSON output of `place` or `plan --inventory`"
    ),
}


class _Command(NamedTuple):
    summary: str
    arguments: _Arguments
    #: Example command lines, without the program's name.
    examples: Sequence[str] = ()


_COMMANDS = {
    "render": _Command(
        "print the Kubernetes objects in apply order",
        {**_SOURCES, **_output("yaml", "json"), **_PLACEMENT_OPTIONS},
        ("render service.yaml | kubectl apply -f -", "render my-project services/ --output json"),
    ),
    "plan": _Command(
        "show topology, gang scheduling, capacity and findings",
        {
            **_SOURCES,
            **_PLACEMENT_OPTIONS,
            **_output("text", "json", "mermaid"),
            "--explain": _flag("show where each value of generated containers comes from"),
            "--cluster": _flag(
                "check quotas, the gang backend and referenced objects in the cluster"
            ),
            "--context": _option("NAME", "kubeconfig context to use; implies --cluster"),
            "--update": _option(
                "OLD",
                "simulate the update from this source or file of rendered objects; show restarts, "
                "available replicas, GPUs in use and maximum duration; requires --output text or "
                "json",
            ),
            "--gpus": _option(
                "80,64,48",
                "show which replicas run with each of these numbers of free accelerators, on nodes "
                "as large as the largest pod",
                type=_parse_free_gpus,
                default=(),
            ),
            "--nodes": _option(
                "8x8,4x4",
                "show which replicas run on these free nodes: count x accelerators",
                type=_parse_free_nodes,
                default=(),
            ),
        },
        (
            "plan service.yaml --gpus 80,64,48",
            "plan services/ --cluster --context staging",
            "plan my-project services/ --output json",
        ),
    ),
    "check": _Command(
        "print errors and warnings about services",
        {
            **_SOURCES,
            **_output(
                "text",
                "json",
                "github",
                prefix="text goes to standard error, other formats to standard output; ",
            ),
            "--server": _flag(
                "also dry-run the objects and pods on the API server, and run all checks of "
                "`plan --cluster`"
            ),
            "--context": _option("NAME", "kubeconfig context to use; implies --server"),
            **_PLACEMENT_OPTIONS,
        },
        (
            "check --strict services/ my-project",
            "check services/ --ignore serving-ports-differ --output github",
            "check services/ --server --context staging",
        ),
    ),
    "dashboards": _Command(
        "write Grafana dashboards of services to files",
        {
            **_SOURCES,
            "--directory": _option(
                "DIR", "target directory; default: the current one", default="."
            ),
        },
        ("dashboards services/ --directory dashboards",),
    ),
    "convert": _Command(
        "convert manifests of another system to InferenceService",
        {
            **_READ_OPTIONS,
            "sources": _option("SOURCE", "a manifest file, a directory of them, or `-`", nargs="+"),
            **_output("yaml", "json", "python", prefix="manifests, or a Pulumi program; "),
            "--expand": _flag("include generated containers, so that the manifest is complete"),
        },
        ("convert model-serving.yaml --output python",),
    ),
    "diff": _Command(
        "show what changes between two sources, and which replicas restart",
        {
            **_READ_OPTIONS,
            "old": _option("OLD", "a SOURCE as for render, or a file of rendered objects"),
            "new": _option("NEW", "the source after the change; not with --base", nargs="?"),
            "--base": _option(
                "REF", "compare the source in this git revision with the working tree"
            ),
            **_output("text", "markdown", "json"),
        },
        ("diff old.yaml new.yaml", "diff --base origin/main services/ --output markdown"),
    ),
    "size": _Command(
        "print the GPU counts and parallel sizes with which a model fits into memory", {}
    ),
    "init": _Command(
        "write a Pulumi project that serves a model",
        {
            "model": _option("MODEL", "name on Hugging Face"),
            "--accelerator": {"required": True, "help": "GPU model, such as H100; or cpu"},
            "--gpus": _option(
                "N", "GPUs of each pod; default: what the model needs", type=_parse_gpus_per_pod
            ),
            "--language": {
                "choices": ("python", "yaml"),
                "default": "python",
                "help": "default: python",
            },
            "--prefill-decode": _flag("separate prefill from decode, and add a router"),
            "--directory": _option("DIR", "target directory; default: the model's name"),
        },
        (
            "init Qwen/Qwen3-32B --accelerator H100",
            "init openai/gpt-oss-120b --accelerator H200 --language yaml",
        ),
    ),
    "place": _Command(
        "choose node pools for all services, and explain the choice",
        {
            **_SOURCES,
            **_PLACEMENT_OPTIONS,
            "--inventory": {**_PLACEMENT_OPTIONS["--inventory"], "required": True},
            **_output("text", "json"),
        },
        (
            "place services/ --inventory pools.yaml",
            "place services/ --inventory pools.yaml --output json > placed.json",
        ),
    ),
    "rules": _Command(
        "list all rules, or explain one",
        {"rule": _option("ID", "the rule to explain in full", type=_parse_rule, nargs="?")},
        ("rules accelerators-too-few", "rules | grep memory"),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The command line without the program's name. If it is None, `main` runs the
            command line of the process, and ends the process with the status.

    Returns:
        0 for success (`diff`: no difference), 1 if `diff` found a difference, 2 for invalid input
        or usage, 130 after Ctrl+C, 141 if the reader of the output closed the pipe.
    """
    _prepare_streams()
    if arguments is not None:
        return _run(arguments)
    # Without this variable, pydantic reads the metadata of all installed packages to find plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    status = _run(sys.argv[1:])
    sys.stderr.flush()
    # Freeing every class and object would take a tenth of the time of `check`.
    os._exit(status)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = build_parser(next(iter(arguments), None)).parse_args(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)
    try:
        from fusioninfer_pulumi.cli import commands

        status: int = getattr(commands, options.command)(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe, as in `... | head`, so the output may be incomplete.
        _discard_output()
        return 141
    except OSError as exc:
        # Errors when reading sources are findings, so this error comes from writing the output.
        # Writing to the stream that replaces a closed one fails without an error number.
        _discard_output()
        sys.stderr.write(f"<stdout>: cannot be written: {exc.strerror or 'it is closed'}\n")
        return 2
    except PluginError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return status


def _prepare_streams() -> None:
    """Replace closed streams, and set the encoding to UTF-8."""
    # Opened for reading, so that writes fail: lost output must not look like success.
    sys.stdout = sys.stdout or Path(os.devnull).open("r")  # noqa: SIM115  # open until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # see above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Discard output that Python still has to flush: flushing at exit would report an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser. Only `command` gets its arguments; if it is None, all commands do."""
    top = argparse.ArgumentParser(
        prog="fusioninfer-pulumi",
        description="Plan, check and render LLM inference services. No cluster is needed.",
        epilog="Exit status: 0 success (diff: no difference), 1 difference found, 2 invalid input.",
    )
    top.add_argument("-V", "--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, arguments, examples) in _COMMANDS.items():
        lines = [f"  fusioninfer-pulumi {example}" for example in examples]
        parser = commands.add_parser(
            name,
            help=summary,
            description=f"{name}: {summary}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="\n".join(["examples:", *lines]) if lines else None,
        )
        if command is not None and command != name:
            continue  # adding all arguments would take longer than parsing them
        if name == "size":
            _add_size_arguments(parser)
        # `plan` accepts --gpus or --nodes, but not both; `init` has another --gpus.
        capacity_group = parser.add_mutually_exclusive_group() if name == "plan" else parser
        for argument, parameters in arguments.items():
            group = capacity_group if argument in ("--gpus", "--nodes") else parser
            group.add_argument(argument, **parameters)
    return top


def _add_size_arguments(parser: argparse.ArgumentParser) -> None:
    from fusioninfer_pulumi.capacity_package import NEEDS_CAPACITY, load_package

    package = load_package()
    if package is None:
        parser.description = f"size: {NEEDS_CAPACITY}."
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    else:
        package.size_arguments(parser)


if __name__ == "__main__":
    sys.exit(main())
