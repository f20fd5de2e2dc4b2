"""Entry point of `fusioninfer-pulumi`: its arguments, streams and exit statuses."""

from __future__ import annotations

import argparse
import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.extras import PluginError
from fusioninfer_pulumi.findings import closest_name

if TYPE_CHECKING:
    from fusioninfer_pulumi.topology.capacity_model import NodePool

#: Exit statuses, part of the contract with CI jobs.
OK, DIFFERENT, INVALID = 0, 1, 2
#: Status of a program that SIGPIPE ends: its output may be incomplete.
BROKEN_PIPE = 141

_MOST = 10**9
_SOURCE = (
    "a manifest file, a folder of them, `-` for standard input, or the folder of a Pulumi project"
)

_EXAMPLES = {
    "render": "  fusioninfer-pulumi render service.yaml | kubectl apply -f -\n"
    "  fusioninfer-pulumi render my-project services/ --output json",
    "plan": "  fusioninfer-pulumi plan service.yaml --gpus 80,64,48\n"
    "  fusioninfer-pulumi plan services/ --cluster --context staging\n"
    "  fusioninfer-pulumi plan my-project services/ --output json",
    "check": "  fusioninfer-pulumi check --strict services/ my-project\n"
    "  fusioninfer-pulumi check services/ --ignore serving-ports-differ --output sarif\n"
    "  fusioninfer-pulumi check services/ --server --context staging",
    "dashboards": "  fusioninfer-pulumi dashboards services/ --directory dashboards",
    "place": "  fusioninfer-pulumi place services/ --inventory pools.yaml\n"
    "  fusioninfer-pulumi place services/ --inventory pools.yaml --output json > placed.json",
    "init": "  fusioninfer-pulumi init Qwen/Qwen3-32B --accelerator H100\n"
    "  fusioninfer-pulumi init openai/gpt-oss-120b --accelerator H200 --language yaml",
    "convert": "  fusioninfer-pulumi convert model-serving.yaml --output python",
    "diff": "  fusioninfer-pulumi diff old.yaml new.yaml\n"
    "  fusioninfer-pulumi diff --base origin/main services/ --output markdown",
    "rules": "  fusioninfer-pulumi rules accelerators-too-few\n"
    "  fusioninfer-pulumi rules | grep memory",
    "completion": '  eval "$(fusioninfer-pulumi completion bash)"\n'
    '  eval "$(fusioninfer-pulumi completion zsh)"\n'
    "  fusioninfer-pulumi completion fish > ~/.config/fish/completions/fusioninfer-pulumi.fish",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: Command line without the program's name; by default the process's own.

    Returns:
        0 when all is well (`diff`: no difference), 1 when `diff` found one, 2 for invalid input
        or usage.
    """
    _prepare_streams()
    if arguments is None:
        # Saves a tenth of the time: garbage collections find nothing while modules are loaded, and
        # pydantic would read the metadata of all packages to find plugins.
        gc.set_threshold(100_000)
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        words = sys.argv[1:] if arguments is None else arguments
        options = command_line(words[:1]).parse_args(words)
    except SystemExit as stopped:
        return int(stopped.code or 0)
    try:
        status = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe: `... | head`.
        _discard_output()
        return BROKEN_PIPE
    except OSError as problem:
        # Errors of sources are findings, so this is an error of the output.
        _discard_output()
        sys.stderr.write(f"<stdout>: cannot be written: {problem.strerror or 'it is closed'}\n")
        return INVALID
    except PluginError as problem:
        sys.stderr.write(f"{problem}\n")
        return INVALID
    except KeyboardInterrupt:
        return 130
    return status


def _prepare_streams() -> None:
    """Opens closed streams, and sets the encoding of YAML and JSON."""
    # Writing to a closed output must fail, because lost output must not look like success.
    sys.stdout = sys.stdout or Path(os.devnull).open("r")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # likewise
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Redirects standard output, because Python reports an error when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> int:
    from fusioninfer_pulumi.cli import commands

    if options.command == "completion":
        from fusioninfer_pulumi.cli.completion import completion

        sys.stdout.write(completion(command_line(["size"]), options.shell) + "\n")
        return OK
    status: int = getattr(commands, options.command)(options)
    return status


class _Parser(argparse.ArgumentParser):
    """Names the option or command that was probably meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Rejects an unknown option that resembles one of this command's."""
        options, rest = super().parse_known_args(args, namespace)
        for word in rest:
            near = closest_name(word.partition("=")[0], self._option_string_actions)
            if word.startswith("--") and near:
                self.exit(INVALID, f"{self.prog}: unknown option {word}; did you mean {near}?\n")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2."""
        if message.startswith("argument ") and ": wanted " in message:  # the usage would not help
            self.exit(INVALID, f"{self.prog}: {message.removeprefix('argument ')}\n")
        start, _, choices = message.partition("(choose from ")
        near = closest_name(start.split("'")[-2], re.findall(r"[\w-]+", choices)) if choices else ""
        super().error(f"{message}; did you mean {near}?" if near else message)


def command_line(complete: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Builds the command line's parser.

    Args:
        complete: Commands whose companion package adds their arguments.
    """
    top = _Parser(
        prog="fusioninfer-pulumi",
        description="Shows what an LLM inference service becomes on Kubernetes, without a cluster.",
        epilog="Exit status: 0 success (diff: no difference), 1 difference found, 2 invalid input.",
    )
    top.add_argument("-V", "--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    render = _command(commands, "render", "print the Kubernetes objects in apply order")
    render.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    _output(render, "yaml", "json")
    _placing(render)

    plan = _command(commands, "plan", "show topology, gang scheduling, capacity and findings")
    plan.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    _placing(plan)
    _output(plan, "text", "json", "mermaid")
    plan.add_argument(
        "--explain",
        action="store_true",
        help="show where each value of generated containers comes from",
    )
    _cluster(
        plan,
        "--cluster",
        "check quotas, the gang backend and referenced objects in the cluster",
    )
    _update(plan)
    _free(plan)

    check = _command(commands, "check", "validate sources")
    check.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    meaning = "text goes to standard error, other formats to standard output; "
    _output(check, "text", "json", "github", "sarif", meaning=meaning)
    _cluster(
        check,
        "--server",
        "also run a server-side dry run of objects and pods, and all checks of --cluster",
    )
    _placing(check)

    _dashboards(commands)

    convert = _command(
        commands, "convert", "convert manifests of another system to InferenceService"
    )
    convert.add_argument(
        "sources", metavar="SOURCE", nargs="+", help="a manifest file, a folder of them, or `-`"
    )
    _output(convert, "yaml", "json", "python", meaning="manifests, or a Pulumi program; ")
    convert.add_argument(
        "--expand",
        action="store_true",
        help="include generated containers, so that the manifest is complete",
    )

    diff = _command(
        commands, "diff", "show what changes between two sources, and which replicas restart"
    )
    diff.add_argument(
        "old", metavar="OLD", help="a SOURCE as of render, or a file of rendered objects"
    )
    diff.add_argument("new", metavar="NEW", nargs="?", help="the source after the change")
    diff.add_argument(
        "--base",
        metavar="REF",
        help="compare the source in this git revision with the working tree",
    )
    _output(diff, "text", "markdown", "json")
    _size(commands, complete="size" in complete)
    _init(commands)
    place = _command(
        commands, "place", "choose node pools for all services, and explain the choice"
    )
    place.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    _placing(place, required=True)
    _output(place, "text", "json")
    rules = commands.add_parser(
        "rules",
        help="list the rules of findings",
        description="rules: list all rules, or explain one.",
    )
    rules.add_argument("rule", metavar="ID", nargs="?", help="the rule to explain in full")
    _output(rules, "text", "json")
    completion = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description="completion: print a shell completion script.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    for name, command in commands.choices.items():
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        command.epilog = f"examples:\n{_EXAMPLES[name]}" if name in _EXAMPLES else None
    return top


def _dashboards(
    commands: argparse._SubParsersAction[_Parser],  # the type has no public name
) -> None:
    dashboards = _command(commands, "dashboards", "write Grafana dashboards of services to files")
    dashboards.add_argument("sources", metavar="SOURCE", nargs="+", help=_SOURCE)
    dashboards.add_argument(
        "--directory", metavar="DIR", default=".", help="target directory; default: the current one"
    )


def _init(
    commands: argparse._SubParsersAction[_Parser],  # the type has no public name
) -> None:
    summary = "write a Pulumi project that serves a model"
    init = commands.add_parser("init", help=summary, description=f"init: {summary}.")
    init.add_argument("model", metavar="MODEL", help="name on Hugging Face")
    init.add_argument("--accelerator", required=True, help="GPU model, such as H100; or cpu")
    init.add_argument(
        "--gpus", type=_count, metavar="N", help="GPUs of each pod; default: what the model needs"
    )
    init.add_argument(
        "--language",
        choices=("python", "yaml"),
        default="python",
        help="default: python",
    )
    init.add_argument(
        "--prefill-decode",
        action="store_true",
        help="separate prefill from decode, and add a router",
    )
    init.add_argument(
        "--directory", metavar="DIR", help="target directory; default: the model's name"
    )


def _size(
    commands: argparse._SubParsersAction[_Parser],  # the type has no public name
    *,
    complete: bool,
) -> None:
    summary = "print the layouts in which a model fits accelerators"
    size = commands.add_parser("size", help=summary, description=f"size: {summary}.")
    if complete:
        from fusioninfer_pulumi.capacity_package import MISSING, capacity

        package = capacity()
        if package is not None:
            package.size_arguments(size)
            return
        size.description = f"size: {MISSING}."
    size.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _command(
    commands: argparse._SubParsersAction[_Parser],  # the type has no public name
    name: str,
    summary: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    command.add_argument("--strict", action="store_true", help="treat warnings as errors")
    command.add_argument(
        "--allow-lossy",
        action="store_true",
        help="drop fields of another system's manifest that have no equivalent, with a warning",
    )
    command.add_argument("--stack", metavar="NAME", help="stack whose configuration a program uses")
    command.add_argument(
        "--show-secrets",
        action="store_true",
        help="print secrets of a program, and credentials in a diff, in plain text",
    )
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="5m",
        help="stop a Pulumi program after this time; default: 5m",
    )
    command.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="RULE",
        help="hide warnings of this rule; may be repeated; errors are never hidden",
    )
    command.add_argument(
        "--verbose", action="store_true", help="also print findings of severity info"
    )
    return command


def _output(command: argparse.ArgumentParser, *choices: str, meaning: str = "") -> None:
    text = f"{meaning}default: {choices[0]}"
    command.add_argument("--output", choices=choices, default=choices[0], help=text)


def _placing(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    command.add_argument(
        "--inventory",
        metavar="POOLS",
        required=required,
        help="place all services on the node pools of this NodePoolInventory",
    )
    command.add_argument(
        "--previous",
        metavar="PLACED",
        help="the current placement: JSON output of an earlier plan --inventory",
    )


def _cluster(command: argparse.ArgumentParser, option: str, meaning: str) -> None:
    command.add_argument(option, action="store_true", help=meaning)
    command.add_argument(
        "--context", metavar="NAME", help=f"kubeconfig context to use; implies {option}"
    )


def _free(command: argparse.ArgumentParser) -> None:
    free = command.add_mutually_exclusive_group()
    free.add_argument(
        "--gpus",
        type=_counts,
        default=(),
        metavar="80,64,48",
        help="show what runs with this many free accelerators, on nodes of the largest pod's size",
    )
    free.add_argument(
        "--nodes",
        type=_pools,
        default=(),
        metavar="8x8,4x4",
        help="show what runs on these free nodes: count x accelerators",
    )


def _update(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--update",
        metavar="OLD",
        help="simulate the update from this source or file of rendered objects: restarts, "
        "available replicas, GPUs in use and the longest duration; with --output text or json",
    )


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"wanted a number such as 4, got {text!r}")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,10}", part) and int(part) <= _MOST for part in parts):
        raise argparse.ArgumentTypeError(f"wanted numbers such as 80,64,48, got {text!r}")
    return tuple(int(part) for part in parts)


def _seconds(text: str) -> float:
    from fusioninfer_pulumi.kube.durations import seconds

    length = seconds(text)
    if not length:
        raise argparse.ArgumentTypeError(f"wanted a duration such as 30s or 5m, got {text!r}")
    return float(length)


def _pools(text: str) -> tuple[NodePool, ...]:
    from fusioninfer_pulumi.topology.capacity_model import NodePool

    pools = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,4})", part)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"wanted count x accelerators such as 8x8,4x4, got {text!r}"
            )
        pools.append(NodePool(int(match[1]), int(match[2])))
    return tuple(pools)


if __name__ == "__main__":
    sys.exit(main())
