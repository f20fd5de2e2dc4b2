"""The arguments by which vLLM and SGLang are told which model to serve, under which name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import canonical, flag_value, has_flag, split_joined_flags

# vLLM: `vllm/engine/arg_utils.py` and `entrypoints/openai/cli_args.py` of 0.11.0 and 0.33.0.
# SGLang: `ServerArgs` of 0.5.3.
_MODEL = {"vllm": ("--model",), "sglang": ("--model-path", "--model")}
_NAME = ("--served-model-name",)
_REVISION = ("--revision",)
_LORA = {
    "vllm": {
        "modules": "--lora-modules",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras",
        "max_cpu_adapters": "--max-cpu-loras",
    },
    "sglang": {
        "modules": "--lora-paths",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras-per-batch",
        "max_cpu_adapters": "--max-loaded-loras",
    },
}


@dataclass(frozen=True)
class ServedModel:
    """What the arguments shall say.

    Attributes:
        model: A repository of Hugging Face, or the path of the model's files.
        revision: Revision of the repository, None for its main branch.
        name: Name by which requests ask for it, None for the engine's default.
        default_name: Name where neither `name` nor the arguments state one; None for the engine's.
        adapters: Repository or path of each LoRA adapter by its name.
        limits: `max_rank`, `max_adapters` and `max_cpu_adapters`, those that are stated.
    """

    model: str
    revision: str | None = None
    name: str | None = None
    default_name: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


def model_argument(command: EngineCommand) -> str | None:
    """The model that a command line names; None when it names none."""
    arguments = split_joined_flags(command.arguments)
    if command.engine is None:
        return None
    if command.serve and arguments and not arguments[0].startswith("-"):
        return arguments[0]  # `vllm serve MODEL`
    return flag_value(arguments, *_MODEL[command.engine])


def served_names(command: EngineCommand) -> tuple[str, ...] | None:
    """The names by which requests may ask an engine for its model, adapters aside.

    Args:
        command: The command line.

    Returns:
        The names, in their order; that of its model where it is given none. None where the
        arguments do not tell.
    """
    if command.engine is None or not command.readable:
        return None
    arguments = split_joined_flags(command.arguments)
    found = _last_values(arguments, _NAME[0])
    if found is None:
        if has_flag(arguments, "--config"):
            return None  # a file that may hold any flag; the command line comes before it
        found = [model_argument(command) or ""]
    return None if any(not each or "$" in each for each in found) else tuple(found) or None


def _last_values(arguments: Sequence[str], flag: str) -> list[str] | None:
    """The words behind the last occurrence of a flag that takes several; None without it."""
    found = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if canonical(name) == flag:
            behind = arguments[index + 1 :]
            found = [value] if equals else list(takewhile(lambda word: word[:1] != "-", behind))
    return found


def model_words(command: EngineCommand, wanted: ServedModel) -> tuple[list[str], str | None]:
    """What has to be added to a command line that contradicts nothing.

    Args:
        command: The command line as written.
        wanted: What it shall say.

    Returns:
        The words behind the engine's own, and the positional model before them, None for none.
    """
    engine = command.engine or "vllm"
    arguments = split_joined_flags(command.arguments)
    words: list[str] = []
    positional = None
    if model_argument(command) is None:
        # `vllm serve --model X` is an error up to 0.11.0; an image without a command may start
        # another program, which wants the flag.
        if command.serve and command.program:
            positional = wanted.model
        else:
            words += [_MODEL[engine][0], wanted.model]
    if wanted.revision is not None and not has_flag(arguments, *_REVISION):
        words += [_REVISION[0], wanted.revision]
    name = wanted.name or wanted.default_name
    if name is not None and not has_flag(arguments, *_NAME):
        words += [_NAME[0], name]
    return words + _lora_words(engine, arguments, wanted), positional


def _is_at(given: str, model: str) -> bool:
    """Whether a command names the model, or one of its files, such as one of several GGUF files."""
    return given == model or (model.startswith("/") and f"{given}/".startswith(f"{model}/"))


def _lora_words(engine: str, arguments: Sequence[str], wanted: ServedModel) -> list[str]:
    if not wanted.adapters:
        return []
    spelled = _LORA[engine]
    words = [] if has_flag(arguments, "--enable-lora") else ["--enable-lora"]
    modules = [f"{name}={place}" for name, place in wanted.adapters.items()]
    words += [spelled["modules"], *modules]
    for key, limit in wanted.limits.items():
        if not has_flag(arguments, spelled[key]):
            words += [spelled[key], str(limit)]
    return words


def model_contradictions(command: EngineCommand, wanted: ServedModel) -> Iterator[str]:
    """What a command line says differently.

    Args:
        command: The command line as written.
        wanted: What it shall say.

    Yields:
        One sentence for each argument.
    """
    engine = command.engine or "vllm"
    arguments = split_joined_flags(command.arguments)
    given = model_argument(command)
    if given is not None and not _is_at(given, wanted.model):
        yield f"the model {given} contradicts model.uri ({wanted.model}); remove one"
    pairs = [
        (_REVISION[0], wanted.revision, "model.uri"),
        (_NAME[0], wanted.name, "model.name"),
    ]
    if wanted.adapters:
        limits = {"max_rank": "maxRank", "max_adapters": "maxAdapters"}
        limits["max_cpu_adapters"] = "maxCpuAdapters"
        pairs += [
            (_LORA[engine][key], str(limit), f"model.lora.{limits[key]}")
            for key, limit in wanted.limits.items()
        ]
    for flag, value, where in pairs:
        stated = flag_value(arguments, flag)
        if value is not None and has_flag(arguments, flag) and stated != value:
            yield f"{flag} {stated or 'without a value'} contradicts {where} ({value}); remove one"
    if wanted.adapters and has_flag(arguments, _LORA[engine]["modules"]):
        yield f"{_LORA[engine]['modules']} stands beside model.lora; move its adapters there"
