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
    parse_argv,
    parse_script,
)
from fusioninfer_pulumi.engines.command_flags import (
    get_plain_variables,
    replace_variables,
    split_joined_flags,
)
from fusioninfer_pulumi.engines.engine import Engine, EngineCommand
from fusioninfer_pulumi.engines.engine_images import Image, parse_image
from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM

#: The engines by name.
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG)}


def parse_command(container: Mapping[str, Any]) -> EngineCommand:
    """Parse a container's command line; never raises.

    The program in the command line determines the engine. If there is no command, the image's name
    determines it, or the container's name if the image is unknown. References such as `$(PORT)` to
    variables of the container are replaced by the variables' values.
    """
    command = _parse_literally(container)
    if not any("$" in word for word in command.arguments):
        return command
    variables = get_plain_variables(container)
    # Only `$(PORT)` is replaced: a script may assign another value to `$PORT`.
    arguments = [replace_variables(word, variables, in_script=False) for word in command.arguments]
    return replace(command, arguments=tuple(arguments))


def _parse_literally(container: Mapping[str, Any]) -> EngineCommand:
    argv, image = parse_argv(container), parse_image(container.get("image"))
    if argv.script_index is not None:
        return _parse_script_command(argv, image)
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
            program=program.words,
            arguments=tuple(split_joined_flags(texts[len(program.words) :])),
            is_vllm_serve=program.is_vllm_serve,
            program_in_args=not has_command and _image_serves(image),
        )
    if has_command:
        # The program is not an engine, and may parse its arguments in another way.
        end = len(argv.command)
        arguments = tuple(split_joined_flags(texts[end:]))
        return replace(command, program=tuple(texts[:end]), arguments=arguments)
    # The entrypoint runs. If the image is an Output, the container's name may name the engine.
    engine_name = container.get("name") if image.name is None else image.engine
    engine = ENGINES.get(engine_name) if isinstance(engine_name, str) else None
    # Only vLLM's stock images start a server. From 0.11.1 on, their entrypoint is `vllm serve`.
    return replace(command, engine=engine, is_vllm_serve=image.is_stock and _image_serves(image))


def _image_serves(image: Image) -> bool:
    return image.engine is not None and ENGINES[image.engine].image_serves


def _parse_script_command(argv: Argv, image: Image) -> EngineCommand:
    command = EngineCommand(engine=None, is_readable=False, image=image, argv=argv)
    try:
        calls = parse_script(argv).calls
    except ShellError:
        calls = ()
    if not calls:
        return command
    call = calls[0]
    has_outputs = bool(argv.outputs) or UNKNOWN in call.arguments
    return replace(
        command,
        engine=ENGINES[call.program.engine],
        program=call.program.words,
        arguments=call.arguments,
        is_readable=len(calls) == 1 and not has_outputs and not call.has_hidden_arguments,
        is_vllm_serve=call.program.is_vllm_serve,
    )


#: Usual names of serving containers, in order of precedence.
SERVING_NAMES = (*ENGINES, "engine", "main")
_DEFAULT_PORT = 8000


def find_serving_container(template: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return the first of: the container with this name, one with a usual name, any container."""
    containers: dict[str | None, Mapping[str, Any]] = {
        container["name"]: container for container in template["spec"]["containers"]
    }
    for candidate in (name, *SERVING_NAMES):
        if candidate in containers:
            return containers[candidate]
    return next(iter(containers.values()))


def find_serving_port(
    container: Mapping[str, Any], command: EngineCommand, port: int | None
) -> int:
    """Return the first of `port`, `--port`, container port `http`, any container port, and 8000."""
    explicit_port = port or command.port
    if explicit_port is not None:
        return explicit_port
    container_ports = container.get("ports") or ()
    http_ports = [entry for entry in container_ports if entry.get("name") == "http"]
    for container_port in (*http_ports, *container_ports):
        number = container_port.get("containerPort")
        # A port without a number is reported when the finished pod is checked.
        if isinstance(number, int):
            return number
    return _DEFAULT_PORT
