"""Arguments of vLLM that contradict each other, as its configuration classes check them.

`SchedulerConfig`, `ParallelConfig` and `validate_parsed_serve_args`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.engines._image import Version
from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, Word
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.rules.common import PARALLELISM_NOT_DIVISIBLE

BATCH_TOO_SMALL = Rule(
    "batch-too-small",
    "error",
    "A batch has room for a token of each sequence and, without chunked prefill, for the longest "
    "prompt.",
    remedy="Raise `--max-num-batched-tokens`.",
)

TOOL_CALL_PARSER_MISSING = Rule(
    "tool-call-parser-missing",
    "error",
    "With `--enable-auto-tool-choice` vLLM has a `--tool-call-parser`.",
    remedy="Add it.",
    source="vLLM, `validate_parsed_serve_args` in vllm/entrypoints/openai/cli_args.py",
)

_PARSER = "--tool-call-parser"
_AUTO_TOOLS = "--enable-auto-tool-choice"
_TOKENS, _SEQUENCES = "--max-num-batched-tokens", "--max-num-seqs"
_LENGTH = "--max-model-len"
_TENSOR = ("--tensor-parallel-size", "-tp")
_CONTEXT = ("--decode-context-parallel-size", "-dcp")


#: First release of the V1 engine that obeys `--no-enable-chunked-prefill`: those before turn it on
#: again for models that generate (`EngineArgs._set_default_args_v1`: in 0.11.0).
WHOLE_PROMPTS: Version = (0, 11, 1)


def contradictions(words: Sequence[Word], version: Version) -> Iterator[Finding]:
    """What vLLM refuses although it knows each argument; located at the words."""
    texts = [word.value for word in words]
    if has_flag(texts, _AUTO_TOOLS) and not has_flag(texts, _PARSER, CONFIG_FLAG):
        message = f"{_AUTO_TOOLS} needs {_PARSER}, without which vLLM stops; add it"
        yield error(TOOL_CALL_PARSER_MISSING, _place(words, _AUTO_TOOLS), message)
    tokens, sequences = (integer(flag_value(texts, flag)) for flag in (_TOKENS, _SEQUENCES))
    if tokens is not None and sequences is not None and 0 < tokens < sequences:
        message = f"{_TOKENS} {tokens} is less than {_SEQUENCES} {sequences}; raise it"
        yield error(BATCH_TOO_SMALL, _place(words, _TOKENS), message)
    length = integer(flag_value(texts, _LENGTH))
    whole = version >= WHOLE_PROMPTS and "--no-enable-chunked-prefill" in texts
    if whole and tokens is not None and length is not None and 0 < tokens < length:
        message = f"{_TOKENS} {tokens} is less than {_LENGTH} {length} without chunked prefill"
        yield error(BATCH_TOO_SMALL, _place(words, _TOKENS), message)
    tensor, context = (integer(flag_value(texts, *flags)) for flags in (_TENSOR, _CONTEXT))
    if context is not None and context > 0 and (tensor or 1) % context:
        if tensor is None and has_flag(texts, *_TENSOR, CONFIG_FLAG):
            return
        message = f"{_CONTEXT[0]} {context} does not divide {_TENSOR[0]} {tensor or 1}; change one"
        yield error(PARALLELISM_NOT_DIVISIBLE, _place(words, *_CONTEXT), message)


def _place(words: Sequence[Word], *names: str) -> Location:
    """Where the last occurrence of an argument stands."""
    return [word.place for word in words if has_flag([word.value], *names)][-1]
