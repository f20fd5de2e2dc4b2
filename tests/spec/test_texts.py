"""JSON as other programs write it."""

from __future__ import annotations

import json

from fusioninfer_pulumi.spec.yaml_text import documents

TEXT = "\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE}"


def test_json_with_escaped_surrogate_pairs_reads_as_the_characters() -> None:
    written = json.dumps({"a": TEXT})
    assert "\\ud83d" in written

    assert list(documents(written)) == [{"a": TEXT}]
