"""Calls of the engine are found in shell scripts, with their position."""

from __future__ import annotations

import itertools
import shlex

import pytest
from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_pulumi.engines._shell_words import (
    Script,
    ShellError,
    parse_argv,
    parse_script,
    tokenize,
)


def read(*words: str) -> Script:
    return parse_script(parse_argv({"command": ["sh", "-c", *words]}))


@each_row(
    ("script", "call", "may_exec"),
    [
        ("vllm serve m", "vllm serve m", True),
        ("  vllm serve m \n\n", "vllm serve m", True),
        ("vllm serve m;", "vllm serve m", True),
        ("exec vllm serve m", "exec vllm serve m", False),
        ("A=1 B='x y' vllm serve m", "vllm serve m", True),
        ("env A=1 vllm serve m", "env A=1 vllm serve m", True),
        ("numactl --all vllm serve m", "numactl --all vllm serve m", True),
        ("cd /x && vllm serve m", "vllm serve m", True),
        ("export A=1; vllm serve m", "vllm serve m", True),
        ("set -e\nvllm serve m \\\n  -tp 2\n", "vllm serve m \\\n  -tp 2", True),
        ("vllm serve m # -tp 2", "vllm serve m", True),
        ("# vllm serve x\nvllm serve m", "vllm serve m", True),
        ("vllm serve m#1", "vllm serve m#1", True),
        ("vllm serve m >/log 2>&1", "vllm serve m", True),
        ("vllm serve m 2>/log -tp 2", "vllm serve m 2>/log -tp 2", True),
        ("vllm serve m &>/log", "vllm serve m", True),
        ("vllm serve m <<<x", "vllm serve m", True),
        ("vllm serve m > >(tee log)", "vllm serve m", True),
        ("vllm serve m | tee log", "vllm serve m", False),
        ("cat x | vllm serve m", "vllm serve m", False),
        ("cat x |\nvllm serve m", "vllm serve m", False),
        ("cat x | tee y\nvllm serve m", "vllm serve m", True),
        ("vllm serve m & wait", "vllm serve m", False),
        ("vllm serve m &", "vllm serve m", False),
        ("vllm serve m; echo done", "vllm serve m", False),
        ("vllm serve m || true", "vllm serve m", False),
        ("a || vllm serve m", "vllm serve m", False),
        ("! vllm serve m", "vllm serve m", False),
        ("time vllm serve m", "vllm serve m", False),
        ("(vllm serve m)", "vllm serve m", False),
        ("{ vllm serve m; }", "vllm serve m", False),
        ("if a; then vllm serve m; fi", "vllm serve m", False),
        ("for i in 1; do vllm serve m; done", "vllm serve m", False),
        ("for i in 1; do x; done; vllm serve m", "vllm serve m", True),
        ("while true; do vllm serve m\ndone", "vllm serve m", False),
        ("trap 'x' EXIT\nvllm serve m", "vllm serve m", False),
        ("f() { vllm serve m; }; f", "vllm serve m", False),
        ("M=$(cat m) vllm serve $(cat 'a)b') \"${M:-$(x)}\"",
         "vllm serve $(cat 'a)b') \"${M:-$(x)}\"", True),
        ("vllm serve `cat m` $((1+2))", "vllm serve `cat m` $((1+2))", True),
        ("vllm serve $(a \\) \")\") `b \\`c\\``", "vllm serve $(a \\) \")\") `b \\`c\\``", True),
        ("command vllm serve m", "command vllm serve m", False),
    ],
)  # fmt: skip
def test_engine_call_is_found(script: str, call: str, may_exec: bool) -> None:
    result = read(script).calls
    assert [script[item.start : item.end] for item in result] == [call]
    assert [item.can_exec for item in result] == [may_exec]


@each_row(
    ("script", "single"),
    [
        ("vllm serve m", True),
        ("\n\nvllm serve m\n\n", True),
        ("cd x && vllm serve m | tee log", True),
        ("a; vllm serve m", False),
        ("a\nvllm serve m", False),
        ("a || vllm serve m", False),
        ("vllm serve m &", False),
        ("(vllm serve m)", False),
    ],
)
def test_single_pipeline_is_recognized(script: str, single: bool) -> None:
    assert read(script).is_and_list is single


@each_row(
    ("script", "arguments", "hidden"),
    [
        (r"vllm serve a\ b 'c d' "+r'"e \"f\" $G \h"', ["a b", "c d", 'e "f" $G \\h'], False),
        ("vllm serve a'b'\"c\"\\\nd", ["abcd"], False),
        ("vllm serve \"a\\\nb\"", ["ab"], False),
        ("vllm serve $MODEL -tp $TP", ["$MODEL", "-tp", "$TP"], False),
        ("vllm serve m $ARGS", ["m", "$ARGS"], True),
        ("vllm serve m ${ARGS[@]}", ["m", "${ARGS[@]}"], True),
        ("vllm serve m \"$ARGS\" -x", ["m", "$ARGS", "-x"], True),
        ("vllm serve m x$ARGS '$A'", ["m", "x$ARGS", "$A"], False),
        ("vllm serve \"$@\"", ["p", "q r"], False),
        ("vllm serve $ -x", ["$", "-x"], False),
    ],
)  # fmt: skip
def test_arguments_of_a_call_are_read(script: str, arguments: list[str], hidden: bool) -> None:
    (call,) = read(script, "sh", "p", "q r").calls
    assert (list(call.arguments), call.has_hidden_arguments) == (arguments, hidden)


@each_row(
    ("script", "message"),
    [
        ("cat <<EOF\nx\nEOF\nvllm serve m", "a here-document (<<)"),
        ("vllm serve 'm", "an unclosed '"),
        ('vllm serve "m', 'an unclosed "'),
        ("vllm serve $(m", "an unclosed ("),
        ("vllm serve ${m", "an unclosed {"),
        ("vllm serve `m", "an unclosed `"),
        ("vllm serve $'m'", "a $'...' string"),
    ],
)
def test_unreadable_script_is_rejected(script: str, message: str) -> None:
    with pytest.raises(ShellError) as raised:
        read(script)
    assert str(raised.value) == message


@given(st.lists(st.text(), min_size=1))
def test_tokenize_reverses_shell_quoting(words: list[str]) -> None:
    result = tokenize(shlex.join(words))
    assert [token.value for token in result] == words


@given(st.text() | st.text(alphabet="vlm x-'\"\\$(){}<>|&;#\n`12"))
def test_tokens_have_their_offsets(script: str) -> None:
    try:
        result = list(tokenize(script))
    except ShellError:
        return
    assert all(script[token.start : token.end] == token.text for token in result)
    assert all(a.end <= b.start for a, b in itertools.pairwise(result))
