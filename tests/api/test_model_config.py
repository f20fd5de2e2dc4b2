"""`model.config` as a path: a regular file of limited size in the manifest's directory tree."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import samples
import yaml

from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of manifests; its parent folder has a config file."""
    (tmp_path / "config.json").write_text('{"secret": true}', encoding="utf-8")
    result = tmp_path / "services"
    result.mkdir()
    return result


def manifest(folder: Path, config: str) -> Path:
    path = folder / "service.yaml"
    service = samples.service(model={"uri": "s3://models/ours", "config": config})
    path.write_text(yaml.safe_dump(service), encoding="utf-8")
    return path


def test_path_is_relative_to_the_manifest(folder: Path) -> None:
    (folder / "models").mkdir()
    (folder / "models" / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (folder / "link.json").symlink_to("models/config.json")
    for name in ("models/config.json", "./models/../models/config.json", "link.json"):
        (service,) = load(manifest(folder, name))
        assert service.model is not None
        assert service.model.config == {"model_type": "llama"}


def link_out(folder: Path) -> None:
    (folder / "c.json").symlink_to("../config.json")


def link_to_itself(folder: Path) -> None:
    (folder / "c.json").symlink_to("c.json")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "c.json")


def device(folder: Path) -> None:
    (folder / "c.json").symlink_to("/dev/zero")


def large(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps("x" * 5 * 2**20), encoding="utf-8")


def nested(folder: Path) -> None:
    (folder / "c.json").write_text("[" * 100_000, encoding="utf-8")


def a_folder(folder: Path) -> None:
    (folder / "c.json").mkdir()


def no_file(folder: Path) -> None:
    del folder


def no_object(folder: Path) -> None:
    (folder / "c.json").write_text("[]", encoding="utf-8")


def binary(folder: Path) -> None:
    (folder / "c.json").write_bytes(b"\xff")


@pytest.mark.parametrize(
    ("config", "make", "says"),
    [
        ("/dev/zero", no_file, "is outside the manifest's directory"),
        ("../config.json", no_file, "is outside the manifest's directory"),
        ("c.json", link_out, "is outside the manifest's directory"),
        ("c.json", device, "is outside the manifest's directory"),
        ("c.json", link_to_itself, "cannot be read"),
        ("c.json", pipe, "is not a regular file"),
        ("c.json", a_folder, ""),
        ("c.json", large, "is larger than 4 MiB"),
        ("c.json", nested, "is not JSON"),
        ("c.json", binary, "is not JSON"),
        ("c.json", no_object, "is not a JSON object"),
        ("c.json", no_file, "cannot be read: No such file"),
        ("a\0b", no_file, "cannot be read: "),
    ],
)
def test_unusable_config_file_is_an_error(
    folder: Path, config: str, make: Callable[[Path], None], says: str
) -> None:
    make(folder)
    with pytest.raises(InvalidServiceError) as rejected:
        load(manifest(folder, config))
    (finding,) = rejected.value.findings
    assert (finding.rule, finding.path) == ("model-config-unreadable", "model.config")
    assert says in finding.text


def test_rejected_manifest_does_not_read_its_config_file(folder: Path) -> None:
    path = manifest(folder, "/dev/zero")
    text = path.read_text(encoding="utf-8").replace("name: svc", "name: Not A Name")
    path.write_text(text.replace("spec:", "spec:\n  unknown: 1", 1), encoding="utf-8")
    with pytest.raises(InvalidServiceError) as rejected:
        load(path)
    assert "model-config-unreadable" not in {finding.rule for finding in rejected.value.findings}
