"""Quantities, compared with the official client's parser."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from kubernetes.utils.quantity import parse_quantity
from rows import each_row

from fusioninfer_pulumi.kube import quantity

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

written = st.one_of(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(("", "+", "-")),
        st.from_regex(r"[0-9]{1,4}(\.[0-9]{0,4})?|\.[0-9]{1,4}", fullmatch=True),
        st.sampled_from(SUFFIXES),
    ),
    st.from_regex(r"[+-]?[0-9]{1,6}(\.[0-9]{1,3})?[eE][+-]?[0-9]", fullmatch=True),
)
amounts = st.decimals(0, 10**15, places=3, allow_nan=False, allow_infinity=False)


@given(written)
def test_quantities_parse_like_official_client(text: str) -> None:
    assert quantity.parse(text) == parse_quantity(text)


@given(st.text(st.sampled_from("0123456789.+-eEkKMGinum _x"), max_size=8))
def test_invalid_quantities_are_rejected_like_official_client(text: str) -> None:
    try:
        read = quantity.parse(text)
    except ValueError:
        return
    assert read == parse_quantity(text)


@each_row("text", ["8", "500m", "1.5Gi", "1e3", "1E3", "1E", "1Ei", "12e-1", ".5", "5."])
def test_quantity_grammar_is_parsed(text: str) -> None:
    assert quantity.parse(text) == parse_quantity(text)


@each_row(
    "text",
    ["", " 1", "1 ", "1_000", "one", "1ki", "1K", "1mi", "NaN", "Infinity", "0x10", "1e", "1e999",
     "--1", "1.2.3", "٣", "9" * 100, "1\n"],
)  # fmt: skip
def test_invalid_quantity_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a Kubernetes quantity$"):
        quantity.parse(text)


@pytest.mark.parametrize("flag", [True, False])
def test_boolean_is_no_quantity(flag: bool) -> None:
    with pytest.raises(ValueError, match=r"^(true|false) is not a Kubernetes quantity$"):
        quantity.parse(flag)


@given(amounts)
def test_formatted_quantity_parses_back(amount: Decimal) -> None:
    assert quantity.parse(quantity.write(amount)) == amount
    assert parse_quantity(quantity.write(amount)) == amount


@given(written)
def test_formatting_keeps_precision_of_kubernetes(text: str) -> None:
    amount = quantity.parse(text)
    again = quantity.parse(quantity.write(amount))
    # Kubernetes keeps thousandths and rounds up.
    assert amount <= again < amount + Decimal("0.001")


@each_row(
    ("amount", "text"),
    [
        ("0", "0"),
        ("8", "8"),
        ("1024", "1024"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("0.0001", "1m"),
        ("1048576", "1Mi"),
        ("1610612736", "1536Mi"),
        ("500000000", "500000000"),
    ],
)
def test_quantities_are_formatted_like_kubernetes(amount: str, text: str) -> None:
    assert quantity.write(Decimal(amount)) == text
