"""A container's `command` and `args` as one list of words, and the engine's program among them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.kube.pulumi_outputs import is_output

#: Stands for a word whose text is not known while the plan is made.
UNKNOWN = "<output>"

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
_INITS = ("env", "tini", "dumb-init", "nvidia_entrypoint.sh")


@dataclass(frozen=True)
class Argv:
    """The words that the container's process gets.

    Attributes:
        command: The container's `command`, empty when it has none.
        args: The container's `args`, empty when it has none.
        outputs: Which of the two (`command`, `args`) are Outputs as a whole.
        script_at: Index in `words` of the script that `sh -c` gets, when there is one.
    """

    command: tuple[Any, ...] = ()
    args: tuple[Any, ...] = ()
    outputs: tuple[str, ...] = ()
    script_at: int | None = None

    @property
    def words(self) -> tuple[Any, ...]:
        """Command and args in one list."""
        return self.command + self.args

    @property
    def script(self) -> Any:
        """The script that `sh -c` gets, which may be an Output; None when there is none."""
        return None if self.script_at is None else self.words[self.script_at]

    def texts(self) -> list[str]:
        """Return the words as text, `UNKNOWN` for each Output."""
        return [UNKNOWN if is_output(word) else str(word) for word in self.words]

    def with_script(self, text: str) -> tuple[list[Any], list[Any] | None]:
        """Return command and args with another script; args is None where there are none."""
        at = self.script_at or 0
        words = [*self.words[:at], text, *self.words[at + 1 :]]
        return words[: len(self.command)], words[len(self.command) :] or None


def read_argv(container: Mapping[str, Any]) -> Argv:
    """Return the words of a container's `command` and `args`; never raises."""
    lists: dict[str, tuple[Any, ...]] = {}
    outputs = []
    for key in ("command", "args"):
        value = container.get(key)
        if is_output(value):
            outputs.append(key)
        plain = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        lists[key] = tuple(value) if plain and value is not None else ()
    # The meaning of words after an unknown command is not known.
    known = "command" not in outputs
    script_at = _script_index(lists["command"] + lists["args"]) if known else None
    return Argv(lists["command"], lists["args"], tuple(outputs), script_at)


def _script_index(words: Sequence[Any]) -> int | None:
    """Return the index of the script behind `sh -c`, `bash -euo pipefail -c`; None without."""
    shells = [index for index, word in enumerate(words) if basename(str(word)) in _SHELLS]
    before, behind = words[: shells[0] if shells else 0], words[shells[0] + 1 if shells else 0 :]
    prefixes = (isinstance(word, str) and _is_prefix(word) for word in before)
    if not shells or not all(prefixes):
        return None
    named = False  # whether the word is the name of an option, behind `-o`
    for index, word in enumerate(behind, shells[0] + 2):
        if not isinstance(word, str) or not (named or word.startswith(("-", "+"))):
            return None
        short = "" if named or word.startswith("--") else word[1:]
        if "c" in short and word.startswith("-"):
            at = index + short.count("o")
            return at if at < len(words) else None
        named = "o" in short
    return None


def _is_prefix(word: str) -> bool:
    return basename(word) in _INITS or word.startswith("-") or _ASSIGNMENT.match(word) is not None


_MODULES = {
    # `python3 -m` this is the entrypoint of the vLLM images up to v0.11.0.
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_VLLM = "vllm.entrypoints.cli.main"  # what the program `vllm` runs
_PYTHON = re.compile(r"python[0-9.]*")
# Interpreter options that take the next word as their value.
_PYTHON_VALUED = ("-X", "-W", "--check-hash-based-pycs")
# Programs that only mention an engine in their arguments.
_MENTIONS = ("echo", "printf", "pip", "pip3", "which", "test", "[", "grep", "pkill", "pgrep")


@dataclass(frozen=True)
class Program:
    """An engine's program in a list of words.

    Attributes:
        engine: `vllm` or `sglang`.
        end: Index of the first argument: the words before it are the program.
        serve: Whether it is `vllm serve`, which accepts the model as a positional argument and is
            the only vLLM program with `--headless`.
    """

    engine: str
    end: int
    serve: bool


def basename(word: str) -> str:
    """Return the last part of a path."""
    return word.rsplit("/", 1)[-1]


def find_program(words: Sequence[str]) -> Program | None:
    """Find the first engine program in a command line.

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
            module = _module(words, index + 1)
            if module is not None:
                return module
    return None


def _module(words: Sequence[str], index: int) -> Program | None:
    while index < len(words) and words[index].startswith("-") and words[index] != "-m":
        index += 2 if words[index] in _PYTHON_VALUED else 1
    flag, *module = words[index : index + 2] or [""]
    name, end = module[0] if module else "", index + 2
    if flag != "-m":
        return None
    if name == _VLLM and words[end : end + 1] == ["serve"]:
        return Program("vllm", end + 1, serve=True)
    return Program(_MODULES[name], end, serve=False) if name in _MODULES else None
