"""Parse command lines and create configurations with vLLM; runs with the engine's Python.

It reads `{"model": FOLDER, "lines": [{"serve": true, "words": [...]}, ...]}` and writes the names
of the engine's `metrics`, and `errors` with a string for each line: empty if vLLM accepts it, else
the error after `parser: ` or `config: `.

No weights are loaded and no GPU is needed: the model is a `config.json`, and accelerators are
simulated.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

# Command lines can exceed the maximum length of the test's model.
os.environ.update(HF_HUB_OFFLINE="1", VLLM_ALLOW_LONG_MAX_MODEL_LEN="1", VLLM_LOGGING_LEVEL="ERROR")

DEVICES = 4096
"""Simulated accelerators, enough for every command line."""

MEMORY = 2 << 40
"""Simulated memory in bytes."""

COMPILED = ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch")
"""Modules that CPU builds can lack."""

MODEL_ARGUMENTS = (
    "tokenizer", "hf_config_path", "revision", "code_revision", "tokenizer_revision",
    "reasoning_parser",
)  # fmt: skip
"""Arguments that need the model's repository or tokenizer."""


def import_first(*places: str) -> Any:
    """Return the first object `module:name` that exists in this release."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(" ".join(places))


Parser = import_first(
    "vllm.utils.argparse_utils:FlexibleArgumentParser", "vllm.utils:FlexibleArgumentParser"
)
_PLACES = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
make_arg_parser = import_first(*(f"{place}:make_arg_parser" for place in _PLACES))
validate = import_first(*(f"{place}:validate_parsed_serve_args" for place in _PLACES))


class Engine:
    """Parsers of `vllm serve` and of vLLM's API server module."""

    def __init__(self, model: str) -> None:
        command = importlib.import_module("vllm.entrypoints.cli.serve").ServeSubcommand()
        self.model = model
        self._vllm = Parser(description="vLLM CLI")
        programs = self._vllm.add_subparsers(required=False, dest="subparser")
        self.serve = command.subparser_init(programs)
        self._api_server = make_arg_parser(Parser())

    def find_error(self, words: list[str], *, serve: bool) -> str:
        """Return the error with which vLLM rejects arguments, or an empty string."""
        # vLLM's parser reads the program name from sys.argv.
        sys.argv = ["vllm", "serve", *words] if serve else ["api_server.py", *words]
        args = argparse.Namespace()

        def parse() -> None:
            (self._vllm if serve else self._api_server).parse_args(namespace=args)
            validate(args)

        rejected = capture_error(parse)
        if rejected:
            return f"parser: {rejected}"
        if "ray" in (args.distributed_executor_backend, getattr(args, "data_parallel_backend", "")):
            return ""  # CPU builds cannot create a configuration with Ray.
        rejected = capture_error_in_child(lambda: self._configure(args))
        return f"config: {rejected}" if rejected else ""

    def cache_model_capabilities(self) -> None:
        """Cache the capabilities of the model's class."""
        args = self._vllm.parse_args(["serve", "m", "--max-model-len", "64"])
        self._configure(args)

    def metrics(self) -> list[str]:
        """Return the names of all metrics of an engine with LoRA adapters."""
        args = self._vllm.parse_args(["serve", "m", "--max-model-len", "64", "--enable-lora"])
        config = self._configure(args)
        logger = import_first("vllm.v1.metrics.loggers:PrometheusStatLogger")(config)
        logger.log_engine_initialized()
        text: str = importlib.import_module("prometheus_client").generate_latest().decode()
        # Metrics with labels have only a TYPE line until they are used.
        return sorted(set(re.findall(r"^(?:# TYPE )?(vllm:\w+)", text, re.MULTILINE)))

    def _configure(self, args: argparse.Namespace) -> Any:
        args.model = self.model
        for name in MODEL_ARGUMENTS:
            setattr(args, name, self.serve.get_default(name))
        engine = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(
            args
        )
        engine.load_format = "dummy"
        make = engine.create_engine_config
        parameters = inspect.signature(make).parameters
        options = (
            {"headless": bool(getattr(args, "headless", False))} if "headless" in parameters else {}
        )
        return make(import_first("vllm.usage.usage_lib:UsageContext").OPENAI_API_SERVER, **options)


def capture_error(call: Callable[[], object]) -> str:
    """Return the error of a call, or an empty string."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            call()
    except SystemExit:
        return (output.getvalue().strip().splitlines() or ["exited without output"])[-1]
    except Exception as error:  # noqa: BLE001 - any exception means that vLLM does not start
        return f"{type(error).__name__}: {error}"
    return ""


def capture_error_in_child(call: Callable[[], object]) -> str:
    """Run `capture_error` in a child process, because configurations change global state."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w", encoding="utf-8") as pipe:
            pipe.write(capture_error(call))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        error = pipe.read()
    os.waitpid(child, 0)
    return error


def simulate_accelerators() -> None:
    """Simulate accelerators, after importing platform-dependent modules for CPUs."""
    torch: Any = importlib.import_module("torch")
    psutil: Any = importlib.import_module("psutil")
    registry = import_first("vllm.distributed.kv_transfer.kv_connector.factory:KVConnectorFactory")
    for load in list(vars(registry)["_registry"].values()):
        with contextlib.suppress(Exception):
            load()
    for name in COMPILED:
        try:
            importlib.import_module(f"vllm.{name}")
        except ImportError:
            sys.modules[f"vllm.{name}"] = types.ModuleType(name)
    torch.cuda.device_count = lambda: DEVICES
    torch.cuda.is_available = lambda: True
    memory = psutil.virtual_memory()._replace(total=MEMORY, available=MEMORY)
    psutil.virtual_memory = lambda: memory
    platform = make_cuda_platform()
    vars(importlib.import_module("vllm.platforms"))["_current_platform"] = platform
    for name, module in list(sys.modules.items()):
        if not name.startswith("vllm"):
            continue
        variables = vars(module)
        if "current_platform" in variables:
            variables["current_platform"] = platform
        if "HAS_TRITON" in variables and name.startswith("vllm.config"):
            variables["HAS_TRITON"] = True
        for counter in ("cuda_device_count_stateless", "_cuda_device_count_stateless"):
            if counter in variables:
                variables[counter] = lambda *_: DEVICES


def make_cuda_platform() -> Any:
    """Return a CUDA platform that needs no driver."""
    cuda = importlib.import_module("vllm.platforms.cuda")
    capability = import_first("vllm.platforms.interface:DeviceCapability")
    results = {
        "get_device_capability": capability(9, 0),
        "get_device_name": "NVIDIA H100 80GB HBM3",
        "get_device_total_memory": 80 << 30,
        "is_fully_connected": True,
        "device_count": DEVICES,
    }
    methods = {
        name: staticmethod(lambda *_, result=result, **__: result)
        for name, result in results.items()
    }
    return type("Accelerators", (cuda.NonNvmlCudaPlatform,), methods)()


def main() -> None:
    request = json.load(sys.stdin)
    engine = Engine(request["model"])
    # The model's class can be imported only before accelerators are simulated.
    engine.cache_model_capabilities()
    simulate_accelerators()
    errors = [engine.find_error(line["words"], serve=line["serve"]) for line in request["lines"]]
    print(json.dumps({"metrics": engine.metrics(), "errors": errors}))


if __name__ == "__main__":
    main()
