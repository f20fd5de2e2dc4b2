"""What an engine tells about itself: metrics and traces.

SGLang serves metrics only with `--enable-metrics` (its guide to production metrics). vLLM counts
nothing with `--disable-log-stats`: its engine then has no loggers, Prometheus's among them
(`vllm/v1/engine/async_llm.py`).
"""

from __future__ import annotations

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.engines.kv_settings import Setting
from fusioninfer_pulumi.engines.notes import EngineNote


def silent_metrics(command: EngineCommand) -> str | None:
    """Why an engine serves no metrics of its own, None where nothing speaks against them."""
    arguments = split_joined_flags(command.arguments)
    if not command.readable:
        return None
    if command.engine == "sglang" and not has_flag(arguments, "--enable-metrics"):
        return "SGLang serves metrics only with --enable-metrics; add it to the arguments"
    if command.engine == "vllm" and has_flag(arguments, "--disable-log-stats"):
        return "vLLM counts nothing with --disable-log-stats; remove it"
    return None


#: Releases of vLLM from the second on, and before the first, come without OpenTelemetry: with the
#: flag they exit (`ObservabilityConfig`). The wheels of 0.8.5 and 0.9.0 require it, those of 0.9.2,
#: 0.10.0, 0.10.2 and 0.11.0 to 0.15.0 do not, 0.16.0 has an extra `otel`, 0.17.0 and 0.18.0 require
#: it again.
VLLM_WITH_OTEL = (0, 17, 0)
VLLM_WITHOUT_OTEL = (0, 9, 2)
TRACING_FLAG = "--otlp-traces-endpoint"


def tracing_settings(command: EngineCommand, endpoint: str) -> tuple[Setting, ...] | None:
    """Flags that make an engine trace; None where none are known.

    SGLang's have changed their spelling between releases, so they are left to the user.
    """
    if command.engine != "vllm":
        return None
    return (Setting(TRACING_FLAG, endpoint),)


def tracing_notes(command: EngineCommand) -> list[EngineNote]:
    """What speaks against an engine's tracing flag."""
    version = command.image.version
    if version is not None and VLLM_WITHOUT_OTEL <= version < VLLM_WITH_OTEL:
        return [
            EngineNote(
                "error",
                TRACING_FLAG,
                f"vLLM {'.'.join(map(str, version))} exits when it shall trace: its image has no "
                "OpenTelemetry packages; use v0.17.0 or later, or set tracing.engines to false",
            )
        ]
    if version is None:
        return [
            EngineNote(
                "info",
                TRACING_FLAG,
                "traces need the OpenTelemetry packages in the image, as vLLM has them from "
                "v0.17.0 on; without them vLLM exits",
            )
        ]
    return []
