"""Reads the command line of a serving container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.engines.container_words import UNKNOWN, read_words
from fusioninfer_pulumi.engines.image import Image, read_image
from fusioninfer_pulumi.engines.programs import find_program
from fusioninfer_pulumi.engines.shell_lexer import ShellError
from fusioninfer_pulumi.engines.shell_script import read_script

_NAMES = ("vllm", "sglang")


@dataclass(frozen=True)
class EngineCommand:
    """What is known about the engine that a container starts.

    Attributes:
        engine: `vllm`, `sglang` or None when neither is recognised.
        program: The words before the engine's arguments as written, for example
            `("vllm", "serve")`; empty when the image's own entrypoint runs.
        arguments: The engine's arguments, what could be read of them; `<output>` stands for an
            Output.
        script: The text given to `sh -c`, when the container runs one.
        readable: False when an Output or a script that could not be read hides arguments.
        image: What the image reference says.
        serve: Whether the program is `vllm serve`, written or as the image's entrypoint.
        program_in_args: Whether the program stands in `args` and the container has no `command`:
            an image with an entrypoint of its own would get those words as arguments.
    """

    engine: str | None
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    script: str | None
    readable: bool
    image: Image = field(default_factory=Image)
    serve: bool = False
    program_in_args: bool = False


def read_command(container: Mapping[str, Any]) -> EngineCommand:
    """Reads a container's command line.

    The engine is the one whose program the command line names; without a command it is the one
    that the image's name says, and the container's name when the image is unknown.

    Args:
        container: The container as in a pod template.

    Returns:
        What could be read; never raises.
    """
    image = read_image(container.get("image"))
    words = read_words(container)
    if words.script_at is not None:
        return _read_script(image, words.texts()[words.script_at :], known=not words.hidden)
    texts = words.texts()
    program = find_program(texts)
    known = not (words.hidden or UNKNOWN in texts)
    if program is not None:
        return EngineCommand(
            engine=program.engine,
            program=tuple(texts[: program.end]),
            arguments=tuple(texts[program.end :]),
            script=None,
            readable=known,
            image=image,
            serve=program.serve,
            program_in_args=not words.command and "command" not in words.outputs,
        )
    if words.command or "command" in words.outputs:
        # Some other program: what it makes of its arguments is not known.
        return EngineCommand(
            engine=None,
            program=tuple(texts[: len(words.command)]),
            arguments=tuple(texts[len(words.command) :]),
            script=None,
            readable=known,
            image=image,
        )
    engine = image.engine
    if engine is None and not isinstance(container.get("image"), str):
        engine = container.get("name") if container.get("name") in _NAMES else None
    return EngineCommand(
        engine=engine,
        program=(),
        arguments=tuple(texts),
        script=None,
        readable=known,
        image=image,
        serve=image.stock and engine == "vllm",
    )


def _read_script(image: Image, words: list[str], *, known: bool) -> EngineCommand:
    script = words[0]
    try:
        calls = read_script(script, words[1:]).calls if script != UNKNOWN else ()
    except ShellError:
        calls = ()
    one = len(calls) == 1 and known and UNKNOWN not in calls[0].arguments
    call = calls[0] if calls else None
    return EngineCommand(
        engine=call.engine if call else None,
        program=call.program if call else (),
        arguments=call.arguments if call else (),
        script=script,
        readable=call is not None and one and not call.hidden,
        image=image,
        serve=call is not None and call.serve,
    )
