"""An engine's arguments for the model and the parallel sizes, and their conflicts with fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fusioninfer_pulumi.engines.engine import SERVED_NAME_FLAG, Argument, Engine, EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.rules.common import SET_TWICE

MODEL_CONTRADICTED = Rule("model-contradicted")

# vLLM: `vllm/engine/arg_utils.py` and `entrypoints/openai/cli_args.py` of 0.11.0 and 0.33.0.
# SGLang: `ServerArgs` of 0.5.3.
_REVISION = "--revision"
#: Gated Hugging Face repositories, whose license an account must accept.
_GATED = re.compile(r"meta-llama/[\w.-]+|google/gemma[\w.-]*|mistralai/Mistral-Large[\w.-]*")


def is_gated(model: str) -> bool:
    """Return whether a Hugging Face repository is known to need a token."""
    return _GATED.fullmatch(model) is not None


@dataclass(frozen=True)
class ServedModel:
    """The model that an engine should serve.

    Attributes:
        model: A Hugging Face repository, or the path of the model's files.
        revision: Revision of the repository, or None for its main branch.
        name: Served name that the user sets, or None if not set.
        default_name: Served name if neither `name` nor the arguments set one, or None for the
            engine's default.
        adapters: Repository or path of each LoRA adapter, keyed by adapter name.
        limits: The values of `maxRank`, `maxAdapters` and `maxCpuAdapters` in `model.lora`, if set.
    """

    model: str
    revision: str | None = None
    name: str | None = None
    default_name: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


def build_model_arguments(
    command: EngineCommand, engine: Engine, served_model: ServedModel
) -> tuple[list[Argument], str | None]:
    """Return the arguments to add, and the positional model to add, or None if there is none."""
    arguments: list[Argument] = []
    positional = None
    if command.model is None:
        # `vllm serve --model X` is an error up to 0.11.0. If the container has no command, the
        # image may start the older program, which needs the flag.
        if command.is_vllm_serve and command.program:
            positional = served_model.model
        else:
            arguments.append(Argument(engine.model_flags, (served_model.model,), replaces=True))
    if served_model.revision is not None:
        arguments.append(Argument((_REVISION,), (served_model.revision,)))
    name = served_model.name or served_model.default_name
    if name is not None:
        arguments.append(Argument((SERVED_NAME_FLAG,), (name,)))
    if served_model.adapters:
        flags = engine.lora_flags
        modules = tuple(f"{adapter}={source}" for adapter, source in served_model.adapters.items())
        arguments += [Argument(("--enable-lora",)), Argument((flags["modules"],), modules)]
        for key, limit in served_model.limits.items():
            arguments.append(Argument((flags[key],), (str(limit),)))
    return arguments, positional


def check_model_arguments(
    command: EngineCommand, engine: Engine, served_model: ServedModel
) -> Iterator[Finding]:
    """Check the model's arguments against the fields of `model`; locations name the flags."""
    command_model, model = command.model, served_model.model
    # The argument may be a file below the path of `model`, such as one of several GGUF files.
    is_below_path = model.startswith("/") and f"{command_model}/".startswith(f"{model}/")
    if command_model is not None and command_model != model and not is_below_path:
        message = f'the model "{command_model}" conflicts with model.uri ("{model}"); remove one'
        yield error(MODEL_CONTRADICTED, (engine.model_flags[0],), message)
    # Each flag, the field that sets it too, and the field's value.
    expected = [
        (_REVISION, "model.uri", served_model.revision),
        (SERVED_NAME_FLAG, "model.name", served_model.name),
    ]
    for key, limit in served_model.limits.items():
        expected.append((engine.lora_flags[key], f"model.lora.{key}", str(limit)))
    for flag, field_name, field_value in expected:
        argument = command.value(flag)
        if field_value is not None and command.has(flag) and argument != field_value:
            message = (
                f"{flag} {argument or 'without a value'} conflicts with {field_name} "
                f"({field_value}); remove one"
            )
            yield error(MODEL_CONTRADICTED, (flag,), message)
    modules = engine.lora_flags["modules"]
    if served_model.adapters and command.has(modules):
        message = f"{modules} conflicts with model.lora; move its adapters there"
        yield error(SET_TWICE, (modules,), message)


ACCELERATORS_TOO_FEW = Rule("accelerators-too-few")
ACCELERATORS_IDLE = Rule("accelerators-idle")


def check_size_arguments(
    command: EngineCommand, expected: Mapping[str, Argument], location: Location
) -> Iterator[Finding]:
    """Check the command line at a location for arguments that contradict `parallelism`."""
    for field_name, argument in expected.items():
        value = command.value(*argument.names)
        if argument.values and command.has(*argument.names) and value != argument.values[0]:
            message = (
                f"{argument.names[0]} {value or 'without a value'} conflicts with "
                f"parallelism.{field_name} ({argument.values[0]}); remove one"
            )
            yield error(SET_TWICE, location, message)


def check_accelerators(
    command: EngineCommand, accelerators_per_pod: int, nodes: int
) -> list[Finding]:
    """Check that an engine uses exactly the accelerators that its replica requests.

    Call this only for pods that request accelerators. Unknown sizes are not checked. The findings'
    locations name the flag.
    """
    parallelism, engine = command.parallelism, command.engine
    # A leader with 0 local ranks only serves HTTP; the ranks of the other pods are unknown.
    if engine is None or parallelism is None or parallelism.data_local == 0:
        return []
    needed, requested = parallelism.count_accelerators(nodes), accelerators_per_pod * nodes
    if needed == requested:
        return []
    sizes = parallelism.describe(engine.sizes.flags, nodes)  # such as `--tp-size 4 x --dp-size 2`
    flag = sizes.partition(" ")[0]
    count = "1 accelerator" if needed == 1 else f"{needed} accelerators"
    available = f"a replica has {nodes} nodes x {accelerators_per_pod} = {requested}"
    if nodes == 1:
        available = f"the pod has {requested}"
    if needed > requested:
        message = (
            f"{sizes} needs {count}, but {available}; request {-(-needed // nodes)} per pod, or "
            "use smaller sizes"
        )
        return [error(ACCELERATORS_TOO_FEW, (flag,), message)]
    if parallelism.is_explicit:
        message = f"{sizes} uses {count}, but {available}; request fewer, or use all"
    else:
        tensor = engine.sizes.flags["tensor"][0]
        message = (
            f"no parallelism is set, so {engine.name} uses 1 accelerator, but {available}; "
            f"set {tensor} {requested}, or request fewer accelerators"
        )
    return [warning(ACCELERATORS_IDLE, (flag,), message)]
