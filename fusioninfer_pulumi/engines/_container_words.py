"""A container's `command` and `args` as one list of words, and the engine's program among them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.kube.pulumi_outputs import is_output

#: Stands for a pulumi Output, whose text is unknown at plan time.
UNKNOWN = "<output>"

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
_INITS = ("env", "tini", "dumb-init", "nvidia_entrypoint.sh")


class Argv(NamedTuple):
    """A container's `command` and `args`, empty if not set.

    Attributes:
        outputs: The fields (`command`, `args`) that are an Output instead of a list.
        script_at: Index in `words` of the script that `sh -c` runs, None if there is none.
    """

    command: tuple[Any, ...] = ()
    args: tuple[Any, ...] = ()
    outputs: tuple[str, ...] = ()
    script_at: int | None = None

    @property
    def words(self) -> tuple[Any, ...]:
        """Command and args, joined."""
        return self.command + self.args

    @property
    def script(self) -> Any:
        """The script that `sh -c` runs, which may be an Output; None if there is none."""
        return None if self.script_at is None else self.words[self.script_at]

    def texts(self) -> list[str]:
        """Return the words as text, `UNKNOWN` for each Output."""
        return [UNKNOWN if is_output(word) else str(word) for word in self.words]

    def with_script(self, text: str) -> tuple[list[Any], list[Any] | None]:
        """Return command and args with a new script; args is None if it would be empty."""
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
    # If the command is unknown, so is the meaning of the words after it.
    known = "command" not in outputs
    script_at = _find_script(lists["command"] + lists["args"]) if known else None
    return Argv(lists["command"], lists["args"], tuple(outputs), script_at)


def _find_script(words: Sequence[Any]) -> int | None:
    """Return the index of the script after `sh -c` or `bash -euo pipefail -c`, None if absent."""
    shells = [index for index, word in enumerate(words) if basename(str(word)) in _SHELLS]
    before, behind = words[: shells[0] if shells else 0], words[shells[0] + 1 if shells else 0 :]
    prefixes = (isinstance(word, str) and _is_prefix(word) for word in before)
    if not shells or not all(prefixes):
        return None
    is_option_name = False  # the word after `-o`, such as `pipefail`
    for index, word in enumerate(behind, shells[0] + 2):
        if not isinstance(word, str) or not (is_option_name or word.startswith(("-", "+"))):
            return None
        short = "" if is_option_name or word.startswith("--") else word[1:]
        if "c" in short and word.startswith("-"):
            at = index + short.count("o")
            return at if at < len(words) else None
        is_option_name = "o" in short
    return None


def _is_prefix(word: str) -> bool:
    return basename(word) in _INITS or word.startswith("-") or _ASSIGNMENT.match(word) is not None


_MODULES = {
    # `python3 -m` this is the entrypoint of the vLLM images up to v0.11.0.
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_VLLM = "vllm.entrypoints.cli.main"  # the module that the program `vllm` runs
_PYTHON = re.compile(r"python[0-9.]*")
# Interpreter options that take the next word as their value.
_PYTHON_VALUED = ("-X", "-W", "--check-hash-based-pycs")
# Programs that do not start the engine that their arguments name.
_MENTIONS = ("echo", "printf", "pip", "pip3", "which", "test", "[", "grep", "pkill", "pgrep")


class Program(NamedTuple):
    """An engine's program in a list of words.

    Attributes:
        engine: `vllm` or `sglang`.
        end: Index of the first argument, after the words of the program.
        serve: Whether it is `vllm serve`. Only that accepts `--headless` and the model as a
            positional argument.
    """

    engine: str
    end: int
    serve: bool


def basename(word: str) -> str:
    """Return the last part of a path."""
    return word.rsplit("/", 1)[-1]


def find_program(words: Sequence[str]) -> Program | None:
    """Find the first engine program in a command line.

    Programs are `vllm serve`, `python3 -m vllm.entrypoints.openai.api_server`, `sglang serve` and
    `python3 -m sglang.launch_server`, also with a full path or after a prefix such as `exec`,
    `env A=1`, `numactl ...` or `tini --`.
    """
    if words and basename(words[0]) in _MENTIONS:
        return None
    for index, word in enumerate(words):
        name = basename(word)
        if name in ("vllm", "sglang") and words[index + 1 : index + 2] == ["serve"]:
            return Program(name, index + 2, serve=name == "vllm")
        if _PYTHON.fullmatch(name):
            module = _find_module(words, index + 1)
            if module is not None:
                return module
    return None


def _find_module(words: Sequence[str], index: int) -> Program | None:
    while index < len(words) and words[index].startswith("-") and words[index] != "-m":
        index += 2 if words[index] in _PYTHON_VALUED else 1
    flag, *module = words[index : index + 2] or [""]
    name, end = module[0] if module else "", index + 2
    if flag != "-m":
        return None
    if name == _VLLM and words[end : end + 1] == ["serve"]:
        return Program("vllm", end + 1, serve=True)
    return Program(_MODULES[name], end, serve=False) if name in _MODULES else None
