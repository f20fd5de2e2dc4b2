"""Texts of other programs, and what is said of those that are no YAML."""

from __future__ import annotations

import json

import pytest

from fusioninfer_pulumi.loading.yaml import UnreadableError, documents

TEXT = "\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE}"
TEMPLATE = "looks like a template (Helm's, for example): render it first"


def test_json_with_escaped_surrogate_pairs_reads_as_the_characters() -> None:
    written = json.dumps({"a": TEXT})
    assert "\\ud83d" in written

    assert list(documents(written)) == [{"a": TEXT}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("\treplicas: 2", "not YAML: line 3: indented with a tab, where YAML takes only spaces"),
        ("  \treplicas: 2", "not YAML: line 3: indented with a tab, where YAML takes only spaces"),
        ("  replicas: " + "9" * 5000,
         "line 3, column 13: a number of 5000 digits; at most 4300 are read"),
        ("  replicas: {{ .Values.replicas }}",
         f"line 3, column 14: a key must be a plain string; the {{{{ }}}} of line 3 {TEMPLATE}"),
        ("{{- if .Values.enabled }}", TEMPLATE),
    ],
)  # fmt: skip
def test_what_usually_makes_a_text_unreadable_is_named(line: str, said: str) -> None:
    with pytest.raises(UnreadableError) as raised:
        list(documents(f"kind: A\nspec:\n{line}\n"))
    assert str(raised.value).endswith(said)


def test_braces_and_tabs_elsewhere_are_nobodys_cause() -> None:
    text = "prompt: '{{ messages }}\t'\na: 1\n\nb: 2\nc: [1\n"
    with pytest.raises(UnreadableError, match=r"^not YAML: line 6, column 1: [^{]*$"):
        list(documents(text))
