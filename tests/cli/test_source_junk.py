"""No input causes a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from samples import role, service

from fusioninfer_pulumi.cli.main import main


@given(data=st.binary(max_size=300))
def test_random_bytes_cause_no_traceback(data: bytes) -> None:
    _never_raises(data)


_WORDS = ["roles", "name", "spec", "metadata", "template", "containers", "kind", "replicas"]
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from(["InferenceService", "worker", "router", "fusioninfer.io/v1alpha1"]),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_WORDS), st.text(max_size=3)), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(spec=_VALUES, metadata=_VALUES, given_role=_VALUES)
def test_random_structures_cause_no_traceback(spec: Any, metadata: Any, given_role: Any) -> None:
    document = {**service(), "spec": spec, "metadata": metadata}
    _never_raises(yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))
    document = {**service(), "spec": {"roles": [given_role, role()]}}
    _never_raises(yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


DEEP = 40_000


NESTED = {
    "brackets": "[" * DEEP + "]" * DEEP,
    "braces": "{a: " * DEEP + "}" * DEEP,
    "dashes": "- " * DEEP + "a",
    "tags": "!!seq [ " * DEEP,
}


def test_deeply_nested_texts_are_rejected(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.yaml" for name in NESTED]
    for path in paths:
        path.write_text(f"{yaml.safe_dump(service())}more:\n  {NESTED[path.stem]}\n")
    command = [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "check", "--output", "json"]
    # In its own process, because the C parser can crash.
    done = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    findings = json.loads(done.stdout)
    assert {finding["file"] for finding in findings} == {str(path) for path in paths}
    assert all("nested deeper than 100 levels" in finding["message"] for finding in findings)


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_file_name_need_not_be_utf_8(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"caf\xe9.yaml")
    (tmp_path / name).write_text(yaml.safe_dump(service(role(replicas=-1))))
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--output", form, name]) == 2
    out, err = capsys.readouterr()
    assert "caf" in out + err


def _never_raises(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        patch.setattr("sys.stdout", io.StringIO())
        patch.setattr("sys.stderr", printed := io.StringIO())
        status = main(["plan", "-", "--gpus", "8"])
        assert status in (0, 2)
        assert status == 0 or printed.getvalue().startswith("<stdin>")
