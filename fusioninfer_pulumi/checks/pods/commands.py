"""Command lines that start no engine, or the same one on every node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, EngineCommand
from fusioninfer_pulumi.engines.flags import integer
from fusioninfer_pulumi.findings import Finding, Rule, error, info, shown, warning
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.rules.common import ARGUMENTS_UNREADABLE

ENGINE_NOT_STARTED = Rule(
    "engine-not-started",
    "warning",
    "The container has a command, or its image starts the engine.",
    remedy="Give the command, such as python3 -m sglang.launch_server.",
    source="docker/Dockerfile of SGLang 0.5.5 has neither ENTRYPOINT nor CMD",
)
ARGUMENTS_NOT_READ = Rule(
    "arguments-not-read",
    ("warning", "error"),
    "A script in `command` reads the `args` behind it.",
    remedy='Move them into the script, or add "$@" to it.',
    source="POSIX, sh -c",
)
INVALID_MODEL_NAME = Rule(
    "invalid-model-name",
    ("error", "warning"),
    "The model is a repository of a hub, a path, or an address that the engine loads.",
    remedy="Correct it.",
    source="huggingface_hub, `validate_repo_id`",
)
NODES_RUN_ONE_COMMAND = Rule(
    "nodes-run-one-command",
    "warning",
    "With launcher none and one template, the command says which node it runs on.",
    remedy="Use another launcher, $(LWS_WORKER_INDEX), or `leaderTemplate` and `workerTemplate`.",
    source="https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/",
)

#: Ways in which a script reads the words behind it.
_POSITIONAL = re.compile(r"\$(\{?[0-9@*]|\{?#)")
#: A repository of a model hub, with what names a file of it behind a colon (GGUF).
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")
#: Variables with one value on all nodes of a replica.
COMMAND_IN_ONE_WORD = Rule(
    "command-in-one-word",
    "error",
    "The program and its arguments are items of a list of their own.",
    remedy="Write each word as an item, or start a shell: `[sh, -c, ...]`.",
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/",
)


#: Programs that people write together with their arguments.
_PROGRAM = re.compile(r"(\S*/)?(vllm|sglang|python[0-9.]*|(ba|da)?sh)\s+\S")
_SAME = re.compile(r"\$[({]?LWS_(LEADER_ADDRESS|GROUP_SIZE)\b[)}]?")
_ENGINE = re.compile(r"(\S*/)?(vllm|sglang|python[0-9.]*)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")


def command_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the words that start the engine."""
    for pod in pods.written:
        yield from _unread(pod)
        yield from _in_one_word(pod)
    command, engine = pods.command, pods.command.engine
    if engine is None:
        return
    at = pods.leader.command_path
    if command.image.stock and not engine.image_serves and not command.program:
        yield warning(
            ENGINE_NOT_STARTED,
            at,
            f"the image {command.image.name} starts no engine by itself; give its command, such as "
            "python3 -m sglang.launch_server",
        )
        return
    if command.readable and command.has(CONFIG_FLAG):
        message = f"arguments in the file behind {CONFIG_FLAG} are not checked"
        yield info(ARGUMENTS_UNREADABLE, at, message)
    yield from _model(pods)
    yield from _same_everywhere(pods, ctx)


def _in_one_word(pod: Pod) -> Iterator[Finding]:
    """Commands whose arguments stand in one word with their program: no file has that name."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(pod.written["spec"].get(field) or ()):
            words = container.get("command")
            word = words[0] if isinstance(words, (list, tuple)) and words else None
            if isinstance(word, str) and _PROGRAM.match(word):
                message = f"no program is called {shown(word)}; write each word as an item"
                at = (*pod.path, "spec", field, index, "command", 0)
                yield error(COMMAND_IN_ONE_WORD, at, message)


def _unread(pod: Pod) -> Iterator[Finding]:
    """Words behind a script that does not read them."""
    argv = pod.own_command.argv
    if argv.script_at is None or not isinstance(argv.script, str):
        return
    behind = len(argv.words) - argv.script_at - 1
    if behind and _ENGINE.fullmatch(argv.script.strip()):
        message = f"the shell runs {argv.script.strip()} alone; write one text with its arguments"
        at = (*pod.container_path, "command", argv.script_at)
        yield error(
            ARGUMENTS_NOT_READ,
            at if argv.script_at < len(argv.command) else pod.command_path,
            message,
        )
        return
    outside = behind and pod.own.get("args") and argv.script_at < len(argv.command)
    flags = any(isinstance(word, str) and word.startswith("-") for word in argv.args)
    if outside and flags and not _POSITIONAL.search(argv.script):
        message = 'the script in command does not read these; move them into it, or add "$@"'
        yield warning(ARGUMENTS_NOT_READ, (*pod.container_path, "args"), message)


def _model(pods: RolePods) -> Iterator[Finding]:
    """A model's name that is neither a repository nor a path."""
    model, command = pods.command.model, pods.command
    if not model or not command.readable or "$" in model or "<" in model:
        return
    if model.startswith(("/", ".", "~")) or _REPOSITORY.fullmatch(model):
        return
    at, web = pods.leader.command_path, model.startswith(("http:", "https:"))
    if web or re.search(r"[\s\"'`]", model):
        message = f"{shown(model)} is neither a repository (org/model) nor a path; correct it"
        yield error(INVALID_MODEL_NAME, at, message)
    elif not _SCHEME.match(model):
        message = f"{shown(model)} is no repository (org/model); write a path as /{model}"
        yield warning(INVALID_MODEL_NAME, at, message)


def _same_everywhere(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Nodes of a replica that all run one command line, which says nothing of their rank."""
    command = pods.command
    one = ctx.role.template is not None and ctx.nodes > 1 and ctx.launcher is Launcher.NONE
    if not one or not command.program or _differs(pods.leader, command):
        return
    yield warning(
        NODES_RUN_ONE_COMMAND,
        pods.leader.command_path,
        f"all {ctx.nodes} nodes run this command, which says nothing of their rank; use another "
        "launcher, $(LWS_WORKER_INDEX), or leaderTemplate and workerTemplate",
    )


def _differs(pod: Pod, command: EngineCommand) -> bool:
    """Whether a command line may do something else on each node."""
    if integer(command.value("--node-rank")) is not None:
        return False
    texts = [_SAME.sub("", word) for word in command.argv.texts()]
    if any("$" in word or "`" in word or "ray" in word for word in texts):
        return True
    return any(
        (variable.get("valueFrom") or {}).get("fieldRef")
        for variable in pod.container.get("env") or ()
    )
