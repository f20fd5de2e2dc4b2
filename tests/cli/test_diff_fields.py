"""Comparison of objects and their fields."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.cli.diff import FieldChange, compare

Manifest = dict[str, Any]


def test_objects_are_matched_by_identity() -> None:
    old = {"apiVersion": "x/v1beta1", "kind": "K", "metadata": {"name": "n"}}
    new = {"apiVersion": "x/v1", "kind": "K", "metadata": {"name": "n", "namespace": "default"}}
    (change,) = compare([old], [new]).objects
    assert change.fields == (FieldChange("apiVersion", "changed", "x/v1beta1", "x/v1"),)
    written_out = {**old, "metadata": new["metadata"]}
    assert not compare([old], [written_out])
    assert not compare([{"kind": "List", "items": [old]}], [old])
    # Duplicate list items are kept.
    assert [change.action for change in compare([old, old], [old]).objects] == ["removed"]


@each_row(
    ("old", "new", "expected"),
    [
        ({"a": True}, {"a": 1}, [("a", True, 1, "changed")]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": None}, {}, [("a", None, None, "removed")]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [("a[1]", 2, None, "removed")]),
        ({"a": [{"x": 1}]}, {"a": [{"y": 1}, {"x": 1}]}, [("a[0]", None, {"y": 1}, "added")]),
        ({"a": [{"x": 1, "z": 1}]}, {"a": [{"x": 2, "z": 1}]}, [("a[0].x", 1, 2, "changed")]),
        (
            {"env": [{"name": "A"}, {"name": "B", "value": "1"}]},
            {"env": [{"name": "B", "value": "2"}, {"name": "A"}]},
            [
                ("env[B].value", "1", "2", "changed"),
                ("env[*].name", ["A", "B"], ["B", "A"], "changed"),
            ],
        ),
        (
            {"m": [{"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}]},
            {"m": [{"mountPath": "/b", "name": "v", "readOnly": True}]},
            [
                ("m[/a]", {"mountPath": "/a", "name": "v"}, None, "removed"),
                ("m[/b].readOnly", None, True, "added"),
            ],
        ),
        ({"a.b/c": {"d": 1}}, {"a.b/c": {"d": 2}}, [("[a.b/c].d", 1, 2, "changed")]),
    ],
)
def test_changed_fields_are_listed(
    old: Manifest, new: Manifest, expected: list[tuple[Any, ...]]
) -> None:
    base = {"kind": "K", "metadata": {"name": "n"}}
    actual = [change.fields for change in compare([{**base, **old}], [{**base, **new}]).objects]
    assert actual == (
        [tuple(FieldChange(path, kind, *values) for path, *values, kind in expected)]
        if expected
        else []
    )


@pytest.mark.slow
def test_comparing_equal_objects_imports_nothing() -> None:
    containers = [{"name": f"c{n}", "image": "a", "args": ["a", "b"]} for n in range(5)]
    many = [
        {"kind": "K", "metadata": {"name": f"n{n}", "labels": {"a": "b"}}, "spec": containers}
        for n in range(2_000)
    ]
    same = copy.deepcopy(many)
    start = time.process_time()
    assert not compare(many, same)
    assert time.process_time() - start < 0.5
    program = (
        "import sys\nfrom fusioninfer_pulumi.cli.diff import compare, to_json, to_markdown\n"
        "to_markdown(compare([{'kind': 'A'}], [{'kind': 'A'}]))\n"
        "print([name for name in ('rich', 'pulumi') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
