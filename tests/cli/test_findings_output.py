"""Output of findings: ignored rules, JSON, GitHub's workflow commands, SARIF, rules."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rows import each_row
from samples import container, listening, role, service, template

from fusioninfer_pulumi.cli.finding_formats import add_line
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import Origin
from fusioninfer_pulumi.rules.catalog import load_rules

ROOT = Path(__file__).parent.parent.parent
WARNED = service(listening("a", 8000), listening("b", 9000))
RULE = "serving-ports-differ"


def write(folder: Path, *documents: Any) -> str:
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return str(path)


def annotated(rule: str) -> Any:
    metadata = {"annotations": {"fusioninfer.io/ignore-rules": rule}}
    return service(listening("a", 8000), listening("b", 9000), metadata=metadata)


def test_warning_is_ignored_by_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, WARNED)
    assert main(["check", path, "--strict"]) == 2
    assert f"[{RULE}]" in capsys.readouterr().err
    assert main(["check", path, "--strict", "--ignore", RULE]) == 0
    assert capsys.readouterr().err == ""
    assert main(["plan", path, "--ignore", RULE]) == 0
    assert RULE not in capsys.readouterr().out


def test_warning_is_ignored_by_annotation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = service(listening("a", 8000), listening("b", 9000), name="other")
    path = write(tmp_path, annotated(f"engine-on-loopback, {RULE}"), other)
    assert main(["check", path]) == 0
    (warned,) = capsys.readouterr().err.splitlines()
    line = Path(path).read_text(encoding="utf-8").splitlines().index("  name: other") + 1
    assert int(warned.split(": ")[0].rpartition(":")[2]) > line
    assert warned.endswith(f"[{RULE}]")


def test_unknown_rule_in_annotation_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, annotated(f"{RULE}, serving-port-differ, zzz"))
    assert main(["check", path]) == 0
    line = Path(path).read_text(encoding="utf-8").splitlines().index("  annotations:") + 2
    place = f"{path}:{line}: warning: metadata.annotations[fusioninfer.io/ignore-rules]"
    assert capsys.readouterr().err.splitlines() == [
        f"{place}: unknown rule 'serving-port-differ'; did you mean {RULE}? [unknown-value]",
        f"{place}: unknown rule 'zzz'; `fusioninfer-pulumi rules` lists all [unknown-value]",
    ]
    assert main(["check", path, "--strict"]) == 2


def test_errors_are_never_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, service(role(replicas=-1)))
    assert main(["check", path, "--ignore", "out-of-range"]) == 2
    assert "[out-of-range]" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "render", "plan"])
def test_verbose_prints_infos(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    pods = template(container(gpus=8), nodeSelector=node)
    path = write(tmp_path, service(role(template=pods)))
    main([command, path])
    quiet = capsys.readouterr()
    assert "memory-not-checked" not in quiet.out + quiet.err
    main([command, path, "--verbose"])
    printed = capsys.readouterr()
    assert "memory-not-checked" in printed.out + printed.err


BAD = """\
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: one}
spec:
  roles:
  - name: a
    componentType: worker
    template: {spec: {containers: [{name: vllm, image: vllm/vllm-openai:v0.11.0}]}}
    replicas: -1
---
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata:
  name: two
  labels:
    "a b": c
spec:
  roles: []
"""


def printed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(BAD)
    assert main(["check", str(tmp_path / "bad.yaml"), "--output", form]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_findings_are_printed_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    actual = json.loads(printed("json", tmp_path, monkeypatch, capsys))
    places = [(entry["rule"], entry["file"], entry["line"], entry["path"]) for entry in actual]
    assert ("out-of-range", "bad.yaml", 9, "roles[0].replicas") in places
    assert ("invalid-format", "bad.yaml", 16, "metadata.labels[a b]") in places


def test_findings_are_printed_as_workflow_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("github", tmp_path, monkeypatch, capsys).splitlines()
    assert lines[0] == (
        "::error file=bad.yaml,line=9,title=out-of-range::"
        "roles[0].replicas: must be at least 0, got -1"
    )
    assert all(line.startswith("::error file=bad.yaml,line=") for line in lines)


def test_valid_service_has_an_empty_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, service())
    for form, wanted in (("json", []), ("github", None)):
        assert main(["check", path, "--output", form]) == 0
        out = capsys.readouterr().out
        assert (json.loads(out) if out else None) == wanted


def test_workflow_commands_in_texts_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, service(role(replicas="a%\n::error::x")))
    main(["check", path, "--output", "github"])
    assert len(capsys.readouterr().out.splitlines()) == 1


@each_row(
    ("origin", "location", "line"),
    [
        (Origin("f"), ("roles", 0, "name"), 4),
        (Origin("f"), ("roles", 0, "port"), 4),
        (Origin("f"), ("roles", 7), 3),
        (Origin("f"), (), 1),
        (Origin("f", 2), ("metadata",), 7),
        (Origin("f", item=1), (), 1),
        (Origin("f", 3), (), None),
        (Origin("other", 2), (), None),
    ],
)
def test_findings_have_lines(
    origin: Origin, location: tuple[str | int, ...], line: int | None
) -> None:
    text = "kind: A\nspec:\n  roles:\n  - name: a\n---\nkind: B\nmetadata: {}\n"
    assert add_line(origin, location, {"f": text}) == origin._replace(line=line)


@each_row(
    ("origin", "text"),
    [
        (Origin("f"), "f"),
        (Origin("f", 2), "f#2"),
        (Origin("f", item=0), "f#items[0]"),
        (Origin("f", 2, 1), "f#2.items[1]"),
        (Origin("f", 2, 1, line=7), "f:7"),
        (Origin("", 1, 3), "#items[3]"),
    ],
)
def test_origin_is_formatted_with_its_document(origin: Origin, text: str) -> None:
    assert str(origin) == text


def test_empty_document_does_not_change_line_numbers() -> None:
    text = "---\n# only a comment\n---\nkind: A\nspec:\n  roles: []\n"
    assert add_line(Origin("f"), ("roles",), {"f": text}).line == 6


def test_finding_in_list_item_has_its_line() -> None:
    text = "kind: List\nitems:\n- kind: A\n  spec:\n    roles: []\n- kind: B\n"
    assert add_line(Origin("f", item=0), ("roles",), {"f": text}).line == 5


@pytest.mark.parametrize("rule", ["accelerators-too-few", "invalid-yaml", "program-failed"])
def test_rule_is_explained_in_full(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", rule]) == 0
    assert load_rules()[rule].remedy in capsys.readouterr().out


def test_example_of_a_rule_has_its_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["rules", "accelerators-too-few"])
    _, _, example = capsys.readouterr().out.partition("\n\n")
    stdin = io.TextIOWrapper(io.BytesIO(example.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["check", "-"]) == 2
    assert "[accelerators-too-few]" in capsys.readouterr().err


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(load_rules())


def test_unknown_rule_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "accelerators-to-few"]) == 2
    assert "did you mean accelerators-too-few" in capsys.readouterr().err


def test_unknown_ignored_rule_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(tmp_path, WARNED), "--ignore", "serving-ports-difer"]) == 2
    error = capsys.readouterr().err
    assert f"unknown rule 'serving-ports-difer'; did you mean {RULE}" in error
    assert f"[{RULE}]" not in error


def test_rules_are_listed_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(load_rules())
    assert {line.split()[1] for line in lines} == {"error", "warning", "info"}


@pytest.mark.parametrize("command", ["render", "plan", "check", "diff", "convert", "rules"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"  fusioninfer-pulumi {command}" in capsys.readouterr().out
