"""Several files, and the files of a directory, are read as one input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import samples
import yaml
from printed_findings import without_rules
from profiles import slow_unless

from fusioninfer_pulumi import InvalidServiceError, load
from fusioninfer_pulumi.cli.main import main
from importers.tests import modelplane_samples
from importers.tests.kserve_samples import config, llm, pod
from importers.tests.kthena_samples import route, rule, server, serving

Manifest = dict[str, Any]
Run = Callable[..., tuple[int, str, list[str]]]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
INVENTORY = {"apiVersion": "fusioninfer.io/v1alpha1", "kind": "NodePoolInventory",
             "spec": {"pools": []}}  # fmt: skip


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def run_main(*arguments: str) -> tuple[int, str, list[str]]:
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, without_rules(captured.err).splitlines()

    return run_main


def write(path: str, *documents: Any) -> str:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


SETS: dict[str, list[Manifest]] = {
    "Kthena": [serving(), server(), route(rule("srv"))],
    "Modelplane": [modelplane_samples.cached("--served-model-name=m"), modelplane_samples.cache()],
    "KServe": [llm(baseRefs=[{"name": "base"}], template=None), config(template=pod())],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", slow_unless("KServe".__eq__, SETS))
def test_directory_is_read_like_one_file(run: Run, name: str) -> None:
    write("one.yaml", *SETS[name])
    files = [write(f"set/{index}.yaml", item) for index, item in enumerate(reversed(SETS[name]))]
    for command in ("render", "convert"):
        status, wanted, _ = run(command, "one.yaml")
        assert status == 0
        for sources in (["set"], files, reversed(files)):
            assert run(command, *sources)[:2] == (0, wanted)
    assert run("check", "set")[0] == 0
    assert run("check", *files)[0] == 0
    assert run("diff", "one.yaml", "set")[:2] == (0, "")
    wanted_args = load("one.yaml")
    assert load("set") == load(Path("set")) == load(files) == wanted_args


def test_findings_name_the_file_of_the_directory(run: Run) -> None:
    write("set/a.yaml", modelplane_samples.cached("--served-model-name=m"))
    write("set/b.yaml", samples.service(), modelplane_samples.cache(sizeGiB=0))
    expected = "set/b.yaml: huggingFace.sizeGiB: must be at least 1, got 0"
    for command in ("render", "check", "plan", "convert"):
        assert run(command, "set") == (2, "", [expected])
    with pytest.raises(InvalidServiceError, match=r"set/b.yaml#2: huggingFace.sizeGiB"):
        load("set")


def test_other_objects_in_a_directory_are_ignored(run: Run) -> None:
    write("one.yaml", samples.service())
    write("set/a.yml", samples.service(), NAMESPACE)
    write("set/values.yaml", {"replicas": 2})
    write("set/pools.json", INVENTORY)
    write("set/deeper/b.yaml", {"kind": "nothing"})
    Path("set/README.md").write_text("kind: [")
    Path("set/empty.yaml").write_text("# nothing\n")
    remaining = "is not an InferenceService and is ignored; apply it separately"
    expected = [f"set/a.yml: warning: kind: Namespace {remaining}"]
    assert run("render", "set") == (0, run("render", "one.yaml")[1], expected)
    assert run("check", "set", "--strict")[0] == 2
    with pytest.warns(UserWarning, match="Namespace is not an InferenceService"):
        assert len(load("set")) == 1
    # A file that is passed by name must be a manifest.
    assert run("check", "one.yaml", "set/pools.json")[0] == 2


def test_platform_objects_are_ignored(run: Run) -> None:
    cluster = {**NAMESPACE, "apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceCluster"}
    write("set/a.yaml", modelplane_samples.released())
    write("set/b.yaml", cluster)
    remaining = "is not an InferenceService and is ignored; apply it separately"
    expected = f"set/b.yaml: warning: kind: InferenceCluster {remaining}"
    assert run("check", "set")[0] == 0
    assert expected in run("check", "set")[2]
    assert run("check", "set/a.yaml", "set/b.yaml")[0] == 2
    write("set/b.yaml", {**cluster, "kind": "ModelEndpoints"})
    assert "ModelEndpoints is not an InferenceService and is ignored" in run("check", "set")[2][-1]


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"a": 1}], ["set: contains no service manifest"]),
        ([INVENTORY], ["set: contains no service manifest"]),
        ([samples.service(), 3], ["set/a.yaml#2: must be a mapping, got 3"]),
        (
            [{"metadata": {}, "spec": {}}],
            [
                "set/a.yaml: apiVersion: is required, must be fusioninfer.io/v1alpha1",
                "set/a.yaml: kind: is required, must be InferenceService",
            ],
        ),
    ],
)
def test_directory_without_services_is_rejected(
    run: Run, documents: Any, expected: list[str]
) -> None:
    write("set/a.yaml", *documents)
    status, out, messages = run("render", "set")
    assert (status, out, messages[: len(expected)]) == (2, "", expected)
    with pytest.raises(InvalidServiceError):
        load("set")


def test_unreadable_files_in_a_directory_are_reported(run: Run) -> None:
    write("set/a.yaml", samples.service())
    Path("set/b.yaml").write_bytes(b"\xff\xfe")
    Path("set/c.yaml").write_text("a: [1\n")
    Path("set/d.yaml").symlink_to("nowhere")  # no file: left out, as kubectl does
    status, _, messages = run("check", "set")
    assert status == 2
    assert [message.split(": ")[:2] for message in messages] == [
        ["set/b.yaml", "the file is not UTF-8 text; convert it to UTF-8"],
        ["set/c.yaml", "invalid YAML"],
    ]


def test_files_of_several_stacks_are_checked_in_one_call(run: Run) -> None:
    stacks = [write(f"{name}/s.yaml", samples.service()) for name in ("dev", "prod")]
    assert run("check", *stacks)[0] == 0
    assert run("check", "dev", "prod")[0] == 0
    assert run("render", *stacks)[0] == 2
    assert run("check", "dev", "dev")[0] == 0
    assert run("render", "dev", "dev")[0] == 0


def test_stacks_checked_in_one_call_are_separate_inputs(run: Run) -> None:
    deployment = modelplane_samples.cached("--served-model-name=m")
    write("dev/a.yaml", deployment, modelplane_samples.cache())
    write("prod/a.yaml", deployment)
    (expected,) = run("check", "dev", "prod")[2]
    assert expected.startswith("prod/a.yaml: template.spec.modelCacheRef: cannot be carried over")
    # Directories whose documents have different names are one stack.
    write("prod/a.yaml", {**deployment, "metadata": {"name": "other"}})
    assert run("check", "dev", "prod")[0] == 0


def test_project_directory_with_unsupported_runtime_is_rejected_once(run: Run) -> None:
    write("set/a.yaml", samples.service())
    write("set/Pulumi.yaml", {"name": "p", "runtime": "nodejs"})
    assert "set: Pulumi.yaml: runtime" in run("render", "set")[2][0]
    (expected,) = run("render", "set", "set/a.yaml")[2]
    assert expected.startswith("set: Pulumi.yaml: runtime")
    # A program may load the manifests in its directory.
    assert len(load("set")) == 1


def test_directories_of_rendered_objects_are_compared(run: Run) -> None:
    write("new.yaml", samples.service())
    Path("old").mkdir()
    Path("old/all.yaml").write_text(run("render", "new.yaml")[1])
    assert run("diff", "old", "new.yaml")[:2] == (0, "")


OLD = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
       "metadata": {"name": "a"}, "spec": {}}  # fmt: skip
KINDS = (
    "no service found; supported kinds: InferenceService, LLMInferenceService (KServe), "
    "ModelServing (Kthena), ModelDeployment (Modelplane)"
)


@pytest.mark.parametrize("document", [config(replicas=2), route(rule("srv"))])
def test_convert_error_lists_supported_kinds(document: Manifest, run: Run) -> None:
    status, printed, messages = run("convert", "--allow-lossy", write("f.yaml", document))
    assert (status, printed) == (2, "")
    assert messages[-1] == f"f.yaml: {KINDS}"


def test_kserve_inference_service_is_not_read_as_ours(run: Run) -> None:
    status, printed, messages = run("convert", write("f.yaml", OLD))
    assert (status, printed) == (2, "")
    (line,) = messages
    assert line == (
        "f.yaml: kind: InferenceService (serving.kserve.io/v1beta1) is not an InferenceService or "
        "one of the kinds of KServe, Kthena, Modelplane; remove it and apply it separately, or "
        "ignore it with --allow-lossy"
    )
