"""What an engine tells about itself: metrics.

SGLang serves metrics only with `--enable-metrics` (its guide to production metrics). vLLM counts
nothing with `--disable-log-stats`: its engine then has no loggers, Prometheus's among them
(`vllm/v1/engine/async_llm.py`).
"""

from __future__ import annotations

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags


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
