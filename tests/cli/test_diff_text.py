"""Differences in limited space, and escaped for Markdown and terminals."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import to_text
from rows import each_row

from fusioninfer_pulumi.cli.diff import compare, to_markdown
from fusioninfer_pulumi.cli.diff._formatting import join_names

Manifest = dict[str, Any]


def config(name: str = "c", **data: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def text(old: Manifest, new: Manifest) -> list[str]:
    """Return the lines below the title of the only object."""
    shown = to_text(compare([old], [new])).splitlines()
    return shown[shown.index("~ ConfigMap c") + 1 :]


@each_row(
    ("old", "new", "lines"),
    [
        ("a", "b", ["    data.k: a -> b"]),
        ("1", 1, ['    data.k: "1" -> 1']),
        ("", None, ['    data.k: "" -> null']),
        ("<secret>", "<unknown>", ["    data.k: <secret> -> <unknown>"]),
        ("a\x1b[31m", "b", ["    data.k: a\\u001b[31m -> b"]),
        (
            "x" * 1000 + "old" + "y" * 1000,
            "x" * 1000 + "new" + "y" * 1000,
            [f"    data.k: …{'x' * 24}old{'y' * 371}… -> …{'x' * 24}new{'y' * 371}…"],
        ),
        (
            "a\nb\nc\nd\ne\nf",
            "a\nb\nc\nd\nE\nf",
            [
                "    data.k:",
                "      @@ -3,4 +3,4 @@",
                "        c",
                "        d",
                "      - e",
                "      + E",
                "        f",
            ],
        ),
        ("a\n", "a", ["    data.k:", "        only line endings differ"]),
    ],
)
def test_old_and_new_values_are_shown(old: Any, new: Any, lines: list[str]) -> None:
    assert text(config(k=old), config(k=new)) == lines


def test_long_text_is_shortened() -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(200)) for word in ("old", "new"))
    shown = text(config(k=old), config(k=new))
    assert len(shown) == 62
    assert shown[-1] == "        … 341 more lines"


def test_object_with_many_changes_does_not_fill_screens() -> None:
    shown = text(config(), config(**{f"k{n}": "v" for n in range(150)}))
    assert shown[0] == "    data.k0: + v"
    assert shown[100:] == ["    … 50 more fields; use --output json to list all"]


def test_color_is_optional() -> None:
    difference = compare([config(k="a")], [config(k="b")])
    assert "\x1b[33mConfigMap c\x1b[0m" in to_text(difference, color=True)
    assert "\x1b" not in to_text(difference)


def test_markdown_shows_names_as_they_are() -> None:
    odd: Manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "<b>|*x*"},
        "spec": {"leaderWorkerTemplate": {"size": 1}},
    }
    bigger = {**odd, "spec": {"leaderWorkerTemplate": {"size": 2}}}
    shown = to_markdown(compare([odd], [bigger])).splitlines()
    assert shown[2] == ("- nodes per replica 1 → 2: restarts &lt;b&gt;\\|\\*x\\*-0")
    assert "| &lt;b&gt;\\|\\*x\\* | 1 | &lt;b&gt;\\|\\*x\\*-0 | nodes per replica 1 → 2 |" in shown


def test_backticks_in_values_do_not_end_the_code_block() -> None:
    old, new = "a\n```\nb\n````\nc", "a\n```\nB\n````\nc"
    shown = to_markdown(compare([config(k=old)], [config(k=new)])).splitlines()
    assert shown[shown.index("`````diff") :] == [
        "`````diff",
        "@@ ConfigMap c @@",
        "  data.k:",
        "@@ -1,5 +1,5 @@",
        "  a",
        "  ```",
        "- b",
        "+ B",
        "  ````",
        "  c",
        "`````",
        "",
        "</details>",
    ]


def test_long_comment_counts_omitted_lines() -> None:
    old = [config(f"c{n}", k="x" * 200, l="a") for n in range(300)]
    new = [config(f"c{n}", k="y" * 200 + str(n), l="b") for n in range(300)]
    shown = to_markdown(compare(old, new))
    assert 64_000 < len(shown) <= 65_000
    assert shown.startswith("**objects: 300 changed**\n\n")
    # Of each object: a gap, its title, and three lines for each of its two fields.
    kept = shown[shown.index("```diff") :].partition("\n… ")[0].count("\n")
    omitted = f"\n… {300 * 8 - 1 - kept} more lines; use --output json to list all\n"
    assert shown.endswith(f"{omitted}```\n\n</details>\n")


@pytest.mark.slow
def test_table_of_many_services_leaves_room_for_fields() -> None:
    def lws(number: int, size: int) -> Manifest:
        return {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": f"service-{number}"},
            "spec": {"leaderWorkerTemplate": {"size": size}},
        }

    difference = compare(
        [lws(number, 1) for number in range(1_200)], [lws(number, 2) for number in range(1_200)]
    )
    shown = to_markdown(difference)
    assert len(shown) <= 65_000
    assert " more lines; use --output json to list all\n\n<details>" in shown
    assert "@@ LeaderWorkerSet service-0..service-1199 (1200 objects) @@\n" in shown


@each_row(
    ("names", "expected"),
    [
        ([], ""),
        (["a-0"], "a-0"),
        (["a-0", "a-1"], "a-0, a-1"),
        (["a-0", "a-1", "a-2"], "a-0..a-2"),
        (["a-9", "a-10", "a-11", "b-12", "b"], "a-9..a-11, b-12, b"),
        (["a-0", "a-01", "a-2"], "a-0, a-01, a-2"),
        (["0", "1", "2", "-"], "0, 1, 2, -"),
        (["a-²", "a-3"], "a-², a-3"),
    ],
)
def test_numbered_names_are_shown_as_ranges(names: list[str], expected: str) -> None:
    assert join_names(names) == expected
