"""Lists of objects, as printed by `kubectl get -o yaml`, are read as separate documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import samples
import yaml

from fusioninfer_pulumi import InvalidServiceError, load, loads
from fusioninfer_pulumi.cli.main import main
from importers.tests.kthena_samples import Manifest, route, server, serving


def write(directory: Path, *documents: Any) -> str:
    path = directory / "m.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


def make_list(*items: Any, **fields: Any) -> Manifest:
    """Return a List, as kubectl prints it."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
            "items": list(items), **fields}  # fmt: skip


def add_booster_metadata(document: Manifest) -> Manifest:
    """Return a document with the metadata of objects that a ModelBooster creates."""
    owner = {"kind": "ModelBooster", "name": "b", "uid": "u", "controller": True}
    kept = {"labels": {"workload.serving.volcano.sh/model-name": "b"}, "ownerReferences": [owner],
            "uid": "v", "generation": 1}  # fmt: skip
    return {**document, "metadata": {**document["metadata"], **kept}, "status": {}}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_of_a_model_booster_are_imported_from_kubectl_output() -> None:
    documents = [add_booster_metadata(item) for item in (serving(), server(), route())]
    (args,) = loads(json.dumps(make_list(*documents)))
    assert (args.name, len(args.roles)) == ("ms", 2)


def test_findings_locate_items_of_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = samples.service(samples.role(replicas=-1))
    path = write(
        tmp_path, make_list(samples.service(), wrong), make_list(serving(plugins=[{"name": "p"}]))
    )
    assert main(["check", path]) == 2
    expected = [line.split(": ")[:2] for line in capsys.readouterr().err.splitlines()]
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    at = [lines[int(place.rpartition(":")[2]) - 1].split()[0] for place, _ in expected]
    assert at in (["replicas:", "plugins:"], ["replicas:", "-"])
    assert [field for _, field in expected] == ["roles[0].replicas", "plugins[0]"]
    (args,) = load(make_list(samples.service()))
    assert args.name == "svc"
    assert load(write(tmp_path, make_list(samples.service()))) == [args]
    assert main(["diff", path, path, "--allow-lossy"]) == 0


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (make_list(), "items: must not be empty"),
        (make_list(items={}), "items: must be a list, got {}"),
        (make_list(make_list(serving())), '#items[0]: kind: must be InferenceService, got "List"'),
    ],
)
def test_malformed_list_is_rejected(document: Manifest, expected: str, tmp_path: Path) -> None:
    for source_of in (document, write(tmp_path, document)):
        with pytest.raises(InvalidServiceError) as errors:
            load(source_of)
        assert expected in str(errors.value)
