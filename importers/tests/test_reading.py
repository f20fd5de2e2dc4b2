"""Which documents are converted, and which source fields findings name."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import samples
import yaml
from printed_findings import without_rules

from fusioninfer_pulumi import InvalidServiceError, load, loads
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.loading.importer import Origins
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.kserve_samples import config, llm
from importers.tests.kthena_samples import entry, policy, role, route, scaled, serving
from importers.tests.reads import check, convert, read_source, reject, warn

INPUTS = sorted((Path(__file__).parents[2] / "tests" / "fixtures" / "inputs").glob("*.yaml"))
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
PLUGIN = {"name": "p", "type": "BuiltIn"}
LOSSY = serving(plugins=[PLUGIN])


def write(directory: Path, *documents: Any) -> str:
    path = directory / "m.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {**serving(), "apiVersion": "workload.serving.volcano.sh/v1"},
            (
                "f: apiVersion: must be workload.serving.volcano.sh/v1alpha1, "
                'got "workload.serving.volcano.sh/v1"'
            ),
        ),
        (
            {"kind": "ModelServing"},
            "f: apiVersion: must be workload.serving.volcano.sh/v1alpha1, got null",
        ),
    ],
)
def test_unsupported_api_version_of_known_kind_is_rejected(document: Any, expected: str) -> None:
    assert reject(document) == [expected]


def test_other_objects_are_rejected_or_ignored_with_losses_allowed() -> None:
    (errors,) = reject(serving(), DEPLOYMENT)
    assert errors == (
        "f#2: kind: Deployment (apps/v1) is not an InferenceService or one of the kinds of KServe, "
        "Kthena, Modelplane; remove it and apply it separately, or ignore it with --allow-lossy"
    )
    assert reject(serving(), DEPLOYMENT, lossy=True) == []
    assert (
        "f#2: warning: kind: Deployment is not an InferenceService and is ignored; apply it "
        "separately" in warn(serving(), DEPLOYMENT, lossy=True)
    )
    # Alone, it is rejected even so.
    assert reject(DEPLOYMENT, lossy=True)


def test_core_findings_name_source_fields() -> None:
    wrong = entry()
    wrong["spec"]["containers"][0]["args"] = ["--tensor-parallel-size", "4"]
    wrong["spec"]["containers"][0]["image"] = "vllm/vllm-openai:v0.11.0 "
    assert reject(serving(role(), role("other", entryTemplate=wrong))) == [
        (
            "f: template.roles[1].entryTemplate.spec.containers[0].args: --tensor-parallel-size 4 "
            "needs 4 accelerators, but the pod has 1; request 4 per pod, or use "
            "smaller sizes"
        ),
        (
            "f: template.roles[1].entryTemplate.spec.containers[0].image: must be "
            "REPOSITORY:TAG in lower case, without https:// and blanks, "
            'got "vllm/vllm-openai:v0.11.0 "'
        ),
    ]


def test_plan_includes_conversion_findings() -> None:
    (document,) = read_source(LOSSY, allow_lossy=True).planned_documents
    assert next(finding.path for _, finding in document.findings) == "plugins[0]"


def test_unknown_keys_do_not_hide_other_findings() -> None:
    document = serving(plugins=[PLUGIN], replicass=2)
    assert [problem.split(": ")[1] for problem in reject(document)] == ["replicass", "plugins[0]"]
    document["spec"]["template"]["roles"][0]["replicas"] = "2"
    assert [problem.split(": ")[1] for problem in reject(document)] == [
        "template.roles[0].replicas",
        "replicass",
    ]


def test_load_rejects_losses_unless_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, LOSSY)
    with pytest.raises(InvalidServiceError, match=r"plugins\[0\]: cannot be carried over"):
        load(path)
    with pytest.warns(UserWarning, match=r"m.yaml: warning: plugins\[0\]: cannot be carried"):
        (args,) = load(path, allow_lossy=True)
    assert args.name == "ms"
    with pytest.warns(UserWarning, match=r"^warning: plugins\[0\]"):
        assert loads(Path(path).read_text(), allow_lossy=True) == [args]
    with pytest.warns(UserWarning, match="plugins"):
        assert load(LOSSY, allow_lossy=True) == [args]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_converting_our_manifest_does_not_change_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["convert", str(path)])
    expected = capsys.readouterr().out
    if status == 0:
        assert list(yaml.safe_load_all(expected)) == list(yaml.safe_load_all(path.read_text()))
    assert main(["render", str(path)]) == status


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_converted_manifest_renders_like_its_source(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, serving(), samples.service(), serving(role(replicas=2), name="b"))
    assert main(["render", path]) == 0
    direct = capsys.readouterr().out
    assert main(["convert", path, "--output", output]) == 0
    text = capsys.readouterr().out
    if output == "json":
        text = yaml.safe_dump_all(json.loads(text)["items"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["render", "-"]) == 0
    assert capsys.readouterr().out == direct


def test_all_commands_report_the_same_conversion_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, LOSSY)
    expected = []
    for command in ("convert", "render", "plan", "check"):
        assert main([command, path]) == 2
        captured = capsys.readouterr()
        assert not captured.out
        expected.append(without_rules(captured.err))
    assert len(set(expected)) == 1
    assert expected[0].startswith(f"{path}: plugins[0]: cannot be carried over: ")
    for command in ("convert", "render", "plan", "check"):
        assert main([command, path, "--allow-lossy"]) == 0
        assert f"{path}: warning: plugins[0]: " in without_rules(capsys.readouterr().err)
        assert main([command, path, "--allow-lossy", "--strict"]) == 2
        capsys.readouterr()
    assert main(["diff", path, path]) == 2
    assert main(["diff", path, path, "--allow-lossy"]) == 0


def test_pulumi_project_is_not_converted(capsys: pytest.CaptureFixture[str]) -> None:
    project = Path(__file__).parents[2] / "examples" / "qwen-monolithic"
    assert main(["convert", str(project)]) == 2
    assert "is a Pulumi project, which cannot be converted" in capsys.readouterr().err


def test_fields_set_by_the_cluster_are_ignored() -> None:
    exported = serving(
        metadata={
            "uid": "u",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "ownerReferences": [{"name": "x"}],
            "finalizers": ["x/y"],
        }
    )
    exported["status"] = {"replicas": 1}
    assert reject(exported) == []
    assert [message for message in check(exported) if "ignored" in message] == [
        "f: info: metadata.uid: set by the API server; ignored",
        "f: info: metadata.ownerReferences: set by controllers; ignored",
        "f: info: metadata.finalizers: set by controllers; ignored",
        (
            "f: info: metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: "
            "set by kubectl; ignored"
        ),
        "f: info: status: is the status of a running object; ignored",
    ]
    assert "annotations" not in convert(exported)[0]["metadata"]


def test_converted_services_with_equal_names_are_rejected() -> None:
    assert any("metadata.name" in problem for problem in reject(serving(), serving()))
    assert len(render(read_source(serving()).plans[0])) == 3


def test_finding_without_source_field_names_converted_field() -> None:
    field = ("roles", 0, "gateway", "x")
    finding = Finding("a-rule", Severity.WARNING, field, "is not given: X is taken")
    (label, moved) = Origins("f", {}).locate(finding)
    assert (label, moved.rule, moved.location, moved.converted) == ("f", "a-rule", (), field)
    named = "roles[0].gateway.x of the converted service"
    assert str(moved) == f"warning: {named}: is not given: X is taken"


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ((serving(), route(rules=[])), "spec: has no rules; ignored"),
        ((serving(), policy(disaggregatedTarget=None)), "spec: has no target, and no Autosca"),
        ((llm(), config("idle")), "no LLMInferenceService of this input uses it; ignored"),
        (
            (llm(), config("kserve-config-llm-template", metadata={"namespace": "kserve"})),
            (
                "KServe applies this config without a reference, the library does not; to apply "
                "it, add it to the baseRefs of the services"
            ),
        ),
    ],
)
def test_document_without_effect_is_a_warning(
    documents: Sequence[Any], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, *documents)
    assert main(["check", path]) == 0
    assert f"warning: {expected}" in capsys.readouterr().err
    assert main(["plan", "--strict", path]) == 2


def test_findings_about_companions_are_shown_with_their_service() -> None:
    fixed = policy(
        metrics=None, disaggregatedTarget=scaled({"server": {"minReplicas": 2, "maxReplicas": 2}})
    )
    (document,) = read_source(serving(role(replicas=2)), fixed).planned_documents
    messages = [finding.message for _, finding in document.findings]
    assert any(
        "server has 2 replicas; without metrics nothing scales it" in message
        for message in messages
    )
