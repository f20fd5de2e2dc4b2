"""Estimates the times of an engine's steps with aiconfigurator-core (extra `estimate`).

Importing the package takes seconds, so only this module does so, and only if a load is given.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from fusioninfer_capacity.fit.architecture import load_models
from fusioninfer_pulumi.plugins.capacity import install_command


class NotCoveredError(Exception):
    """The package cannot estimate the input; the message can be shown to the user."""


_PACKAGE = "aiconfigurator-core"
#: The package's name of each accelerator.
SYSTEMS = {
    "H100": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm", "A100": "a100_sxm",
    "L40S": "l40s", "L4": "l4", "RTX-PRO-6000": "rtx_pro_6000_server",
}  # fmt: skip


class StepTimeEstimates:
    """Implements `load.StepTimes` for one layout.

    Args:
        model: Name of the model.
        accelerator: Name of the accelerator.
        engine: `vllm` or `sglang`.
        tensor: Tensor parallel size.
        stages: Pipeline parallel size.

    Raises:
        NotCoveredError: The package is not installed, or has no data for one of the arguments.
    """

    def __init__(self, model: str, accelerator: str, engine: str, tensor: int, stages: int) -> None:
        engine_handle, database = _import_package()
        system = SYSTEMS.get(accelerator)
        if system is None:
            raise NotCoveredError(f"{_PACKAGE} has no times of {accelerator}")
        name = _find_name(model)
        self.stages = stages
        self.version = metadata.version(_PACKAGE)
        self.release = database.get_latest_database_version(system, engine)
        if self.release is None:
            raise NotCoveredError(f"{_PACKAGE} has no times of {engine} on {accelerator}")
        split = {"moe_tp_size": tensor, "moe_ep_size": 1} if tensor > 1 else {}
        with _convert_errors("layout"):
            self._engine: Any = engine_handle.compile(
                name, system, engine,
                backend_version=self.release, tp_size=tensor, pp_size=stages, **split,
            )  # fmt: skip

    @property
    def source(self) -> str:
        """Source of the estimates."""
        return f"{_PACKAGE} {self.version}, measured with release {self.release} of the engine"

    def prefill(self, tokens: int) -> float:
        """Return the time of a prompt of `tokens` tokens."""
        return self._predict("predict_prefill_latency", 1, tokens)

    def decode(self, sequences: int, tokens: int) -> float:
        """Return the time of a step that generates a token for each sequence."""
        return self._predict("predict_decode_latency", sequences, tokens, 2)

    def _predict(self, method: str, *arguments: int) -> float:
        with _convert_errors("load"):
            milliseconds: float = getattr(self._engine, method)(*arguments)
        return milliseconds / 1000


def _import_package() -> tuple[Any, Any]:
    try:
        with _silence():
            from aiconfigurator_core.sdk import perf_database  # noqa: PLC0415  # takes seconds
            from aiconfigurator_core.sdk.engine import EngineHandle  # noqa: PLC0415  # likewise
    except ImportError as exc:
        raise NotCoveredError(
            f"load figures require {install_command('capacity', 'estimate')} on Linux with Python "
            f"3.11 to 3.13 ({exc})"
        ) from None
    return EngineHandle, perf_database


def _find_name(model: str) -> str:
    """Return a name of the model whose config the package contains; it would download others."""
    from aiconfigurator_core.sdk.common import DefaultHFModels  # noqa: PLC0415  # loaded above

    for name in (model, load_models().get(model, {}).get("base")):
        if name in DefaultHFModels:
            return str(name)
    raise NotCoveredError(f"{_PACKAGE} has no config of {model}")


@contextlib.contextmanager
def _convert_errors(what: str) -> Iterator[None]:
    """Convert all of the package's exceptions to `NotCoveredError`."""
    try:
        with _silence():
            yield
    except Exception as exc:  # noqa: BLE001  # the package raises exceptions of any type
        reason = str(exc).partition("\n")[0][:120]
        raise NotCoveredError(f"{_PACKAGE} does not cover this {what}: {reason}") from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
