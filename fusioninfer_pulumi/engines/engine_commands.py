"""Finds a pod's serving container, and reads its command line and port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.engines._shell_words import (
    UNKNOWN,
    Argv,
    ShellError,
    find_program,
    read_argv,
    read_script,
)
from fusioninfer_pulumi.engines.command_flags import (
    read_plain_variables,
    replace_variables,
    split_joined_flags,
)
from fusioninfer_pulumi.engines.engine import Engine, EngineCommand
from fusioninfer_pulumi.engines.engine_images import Image, read_image
from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM

#: The engines by name.
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG)}


def read_command(container: Mapping[str, Any]) -> EngineCommand:
    """Parse a container's command line; never raise.

    The program in the command line determines the engine. Without a command the image's name does,
    or the container's name if the image is unknown. References to variables of the container are
    replaced by their values.
    """
    command = _read(container)
    if not any("$" in word for word in command.arguments):
        return command
    variables = read_plain_variables(container)
    # Shell references stay, because a script may assign other values.
    arguments = [replace_variables(word, variables, in_script=False) for word in command.arguments]
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
        is_readable=not (argv.outputs or UNKNOWN in texts),
        image=image,
        argv=argv,
    )
    if program is not None:
        return replace(
            command,
            engine=ENGINES[program.engine],
            program=tuple(texts[: program.end]),
            arguments=tuple(split_joined_flags(texts[program.end :])),
            is_vllm_serve=program.is_vllm_serve,
            program_in_args=not has_command and _image_serves(image),
        )
    if has_command:
        # The program is not an engine, and may parse its arguments in another way.
        end = len(argv.command)
        arguments = tuple(split_joined_flags(texts[end:]))
        return replace(command, program=tuple(texts[:end]), arguments=arguments)
    name = image.engine
    if name is None and image.name is None:
        name = container.get("name")
    engine = ENGINES.get(name) if isinstance(name, str) else None
    return replace(command, engine=engine, is_vllm_serve=image.is_stock and _image_serves(image))


def _image_serves(image: Image) -> bool:
    return image.engine is not None and ENGINES[image.engine].image_serves


def _read_script(argv: Argv, image: Image) -> EngineCommand:
    command = EngineCommand(engine=None, is_readable=False, image=image, argv=argv)
    try:
        calls = read_script(argv).calls
    except ShellError:
        calls = ()
    if not calls:
        return command
    call = calls[0]
    is_known = not argv.outputs and UNKNOWN not in call.arguments
    return replace(
        command,
        engine=ENGINES[call.engine],
        program=call.program,
        arguments=call.arguments,
        is_readable=is_known and len(calls) == 1 and not call.has_hidden_arguments,
        is_vllm_serve=call.is_vllm_serve,
    )


#: Usual names of serving containers, in order of precedence.
_SERVING_NAMES = (*ENGINES, "engine", "main")
_DEFAULT_PORT = 8000


def find_serving_container(template: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return the container with this name, else one with a usual name, else the first."""
    containers: dict[str | None, Mapping[str, Any]] = {
        container["name"]: container for container in template["spec"]["containers"]
    }
    for candidate in (name, *_SERVING_NAMES):
        if candidate in containers:
            return containers[candidate]
    return next(iter(containers.values()))


def find_serving_port(
    container: Mapping[str, Any], command: EngineCommand, port: int | None
) -> int:
    """Return the first of `port`, `--port`, container port `http`, any container port, and 8000."""
    explicit = port or command.port
    if explicit is not None:
        return explicit
    ports = sorted(container.get("ports") or (), key=lambda item: item.get("name") != "http")
    numbers = (item.get("containerPort") for item in ports)
    # A port without a number is reported when the finished pod is checked.
    return next((number for number in numbers if isinstance(number, int)), _DEFAULT_PORT)
