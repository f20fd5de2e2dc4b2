"""Finds the program that starts an engine in a list of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MODULES = {
    # `python3 -m` this is the entrypoint of the vLLM images up to v0.11.0.
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_SUBCOMMAND_MODULES = {"vllm.entrypoints.cli.main": "vllm"}
_PYTHON = re.compile(r"python[0-9.]*")
# Interpreter options that take the next word as their value.
_PYTHON_VALUED = ("-X", "-W", "--check-hash-based-pycs")
# Programs that only mention an engine in their arguments.
_MENTIONS = ("echo", "printf", "pip", "pip3", "which", "test", "[", "grep", "pkill", "pgrep")


@dataclass(frozen=True)
class Program:
    """Where an engine's program stands in a list of words.

    Attributes:
        engine: `vllm` or `sglang`.
        end: Index of the first argument: the words before it are the program.
        serve: Whether it is `vllm serve`, which takes the model as a positional argument and is
            the only vLLM program that knows `--headless`.
    """

    engine: str
    end: int
    serve: bool


def basename(word: str) -> str:
    """The last part of a path."""
    return word.rsplit("/", 1)[-1]


def find_program(words: Sequence[str]) -> Program | None:
    """Finds the first engine program in a command line.

    `vllm serve`, `python3 -m vllm.entrypoints.openai.api_server`, `sglang serve` and
    `python3 -m sglang.launch_server` are known, also by their full path and behind a prefix such
    as `exec`, `env A=1`, `numactl ...` or `tini --`.
    """
    if words and basename(words[0]) in _MENTIONS:
        return None
    for index, word in enumerate(words):
        name = basename(word)
        if name in ("vllm", "sglang") and words[index + 1 : index + 2] == ["serve"]:
            return Program(name, index + 2, serve=name == "vllm")
        if _PYTHON.fullmatch(name):
            found = _module(words, index + 1)
            if found is not None:
                return found
    return None


def _module(words: Sequence[str], index: int) -> Program | None:
    while index < len(words) and words[index].startswith("-") and words[index] != "-m":
        index += 2 if words[index] in _PYTHON_VALUED else 1
    module, after = words[index + 1 : index + 2], index + 2
    if words[index : index + 1] != ["-m"] or not module:
        return None
    if module[0] in _MODULES:
        return Program(_MODULES[module[0]], after, serve=False)
    if module[0] in _SUBCOMMAND_MODULES and words[after : after + 1] == ["serve"]:
        return Program(_SUBCOMMAND_MODULES[module[0]], after + 1, serve=True)
    return None
