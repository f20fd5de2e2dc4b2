"""Reads the command line of a serving container, and finds the container and its port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.engines._container_words import UNKNOWN, Argv, find_program, read_argv
from fusioninfer_pulumi.engines._shell_scripts import ShellError, read_script
from fusioninfer_pulumi.engines.command_flags import (
    read_plain_variables,
    resolved,
    split_joined_flags,
)
from fusioninfer_pulumi.engines.engine import Engine, EngineCommand
from fusioninfer_pulumi.engines.engine_images import Image, read_image
from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM

#: The engines by their names.
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG)}


def read_command(container: Mapping[str, Any]) -> EngineCommand:
    """Parse a container's command line; never raises.

    The command line's program decides the engine; without a command the image's name does, and
    the container's name if the image is unknown. References to the container's variables are
    replaced by their values.
    """
    command = _read(container)
    if not any("$" in word for word in command.arguments):
        return command
    variables = read_plain_variables(container)
    # A script may assign the shell's variables.
    arguments = [resolved(word, variables, in_script=False) for word in command.arguments]
    return replace(command, arguments=tuple(arguments))


def _read(container: Mapping[str, Any]) -> EngineCommand:
    argv, image = read_argv(container), read_image(container.get("image"))
    if argv.script_at is not None:
        return _read_script(argv, image)
    texts = argv.texts()
    program = find_program(texts)
    has_command = bool(argv.command) or "command" in argv.outputs
    command = EngineCommand(
        engine=None,
        arguments=tuple(split_joined_flags(texts)),
        readable=not (argv.outputs or UNKNOWN in texts),
        image=image,
        argv=argv,
    )
    if program is not None:
        return replace(
            command,
            engine=ENGINES[program.engine],
            program=tuple(texts[: program.end]),
            arguments=tuple(split_joined_flags(texts[program.end :])),
            serve=program.serve,
            program_in_args=not has_command and _image_serves(image),
        )
    if has_command:
        # Another program: how it reads its arguments is not known.
        end = len(argv.command)
        arguments = tuple(split_joined_flags(texts[end:]))
        return replace(command, program=tuple(texts[:end]), arguments=arguments)
    name = image.engine
    if name is None and image.name is None:
        name = container.get("name")
    engine = ENGINES.get(name) if isinstance(name, str) else None
    return replace(command, engine=engine, serve=image.stock and _image_serves(image))


def _image_serves(image: Image) -> bool:
    """Return whether the image's entrypoint starts an engine."""
    return image.engine is not None and ENGINES[image.engine].image_serves


def _read_script(argv: Argv, image: Image) -> EngineCommand:
    command = EngineCommand(engine=None, readable=False, image=image, argv=argv)
    try:
        calls = read_script(argv).calls
    except ShellError:
        calls = ()
    if not calls:
        return command
    call = calls[0]
    known = not argv.outputs and UNKNOWN not in call.arguments
    return replace(
        command,
        engine=ENGINES[call.engine],
        program=call.program,
        arguments=call.arguments,
        readable=known and len(calls) == 1 and not call.hidden,
        serve=call.serve,
    )


#: Usual names of serving containers, in order of precedence.
_SERVING_NAMES = (*ENGINES, "engine", "main")
_DEFAULT_PORT = 8000


def find_serving_container(template: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Find the serving container: the one named, else by usual names, else the first."""
    containers = {container["name"]: container for container in template["spec"]["containers"]}
    for candidate in (name, *_SERVING_NAMES):
        if candidate in containers:
            serving: Mapping[str, Any] = containers[candidate]
            return serving
    first: Mapping[str, Any] = next(iter(containers.values()))
    return first


def serving_port(container: Mapping[str, Any], command: EngineCommand, port: int | None) -> int:
    """Return the port on which a container serves.

    The role's `port`, else the engine's `--port`, else the container port named http, else the
    first container port, else 8000.
    """
    chosen = port or command.port
    if chosen is not None:
        return chosen
    ports = container.get("ports") or ()
    named = [port["containerPort"] for port in ports if port.get("name") == "http"]
    listed = named or [port["containerPort"] for port in ports]
    return int(listed[0]) if listed else _DEFAULT_PORT
