"""What `render` writes is read back as the same values by any YAML reader."""

from __future__ import annotations

import pytest
import yaml

from fusioninfer_pulumi.cli.output import to_yaml


@pytest.mark.parametrize(
    "text",
    ["1e3", "1e-2", "0o7", "007", "y", "N", "yes", "on", "1.5", "1", "0x1f", "12:30", "~", ""],
)
def test_text_that_reads_like_something_else_is_quoted(text: str) -> None:
    written = to_yaml([{"key": text}])

    assert written in (f"key: '{text}'\n", f'key: "{text}"\n')
    assert yaml.safe_load(written) == {"key": text}


def test_numbers_truth_and_nothing_are_written_plainly() -> None:
    assert to_yaml([{"a": 1, "b": 1.5, "c": True, "d": None, "e": "word"}]) == (
        "a: 1\nb: 1.5\nc: true\nd: null\ne: word\n"
    )


def test_text_of_several_lines_is_a_block() -> None:
    assert to_yaml([{"key": "one\ntwo\n"}]) == "key: |\n  one\n  two\n"
