"""Flags are found as in argparse."""

from __future__ import annotations

from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_pulumi.engines.command_flags import (
    get_flag_value,
    has_flag,
    parse_integer,
    split_joined_flags,
)

TENSOR = ("--tensor-parallel-size", "-tp")


@each_row(
    ("arguments", "value"),
    [
        ([], None),
        (["--tensor-parallel-size", "16"], "16"),
        (["--tensor-parallel-size=16"], "16"),
        (["--tensor_parallel_size", "16"], "16"),
        (["--tensor_parallel-size=16"], "16"),
        (["-tp", "16"], "16"),
        (["-tp=16"], "16"),
        (["-tp", "8", "--tensor-parallel-size=16"], "16"),
        (["--tensor-parallel-size=16", "-tp", "8"], "8"),
        (["--tensor-parallel-size="], ""),
        (["--tensor-parallel-size"], None),
        (["--tensor-parallel-size", "--port", "80"], None),
        (["--tensor-parallel-size", "-1"], "-1"),
        (["--tensor-parallel-size-x", "16", "--tensor", "4"], None),
        (["-tp", "$TP"], "$TP"),
    ],
)
def test_last_flag_value_is_returned(arguments: list[str], value: str | None) -> None:
    assert get_flag_value(arguments, *TENSOR) == value


def test_flag_without_value_is_found() -> None:
    assert has_flag(["a", "--enable_dp_attention"], "--enable-dp-attention")
    assert has_flag(["--headless=1"], "--headless")
    assert not has_flag(["headless", "--headless-x"], "--headless")


@each_row(
    ("text", "number"),
    [("8", 8), ("-1", -1), ("08", 8), ("", None), (None, None), ("8.0", None), ("$TP", None),
     ("$(TP)", None), ("auto", None), ("٣", None), ("9" * 30, None)],
)  # fmt: skip
def test_integer_parses_plain_decimals(text: str | None, number: int | None) -> None:
    assert parse_integer(text) == number


JSON = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'


@each_row(
    ("argument", "split"),
    [
        (f"--kv-transfer-config '{JSON}'", ["--kv-transfer-config", JSON]),
        (f"--kv-transfer-config   {JSON}", ["--kv-transfer-config", JSON]),
        ('--kv-transfer-config "{\\"a\\": 1}"', ["--kv-transfer-config", '{"a": 1}']),
        ("--tensor-parallel-size 16", ["--tensor-parallel-size", "16"]),
        ("--tensor-parallel-size 16\n", ["--tensor-parallel-size", "16"]),
        ("--a 1 --b 2", ["--a", "1", "--b", "2"]),
        ("--note two words", ["--note", "two words"]),
        ("--note it's", ["--note", "it's"]),
        ("--x\n'a b'", ["--x", "a b"]),
        # Not joined: no value, an equals sign, no long flag.
        ("--model=a b", ["--model=a b"]),
        ("--model ", ["--model "]),
        ("-tp 16", ["-tp 16"]),
        ("a --b c", ["a --b c"]),
        (JSON, [JSON]),
        ("", [""]),
    ],
)
def test_joined_flags_are_split(argument: str, split: list[str]) -> None:
    assert split_joined_flags(["x", argument, "y"]) == ["x", *split, "y"]


@given(st.lists(st.text()))
def test_splitting_keeps_arguments_without_blanks(arguments: list[str]) -> None:
    plain = [argument for argument in arguments if not argument.startswith("--")]
    assert split_joined_flags(plain) == plain


@given(st.lists(st.text()))
def test_splitting_never_fails(arguments: list[str]) -> None:
    assert len(split_joined_flags(arguments)) >= len(arguments)
