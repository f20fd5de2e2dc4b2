"""Capacity packages are found by entry point: capacity/example, or no package."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples
import yaml
from in_one_process import run

import fusioninfer_pulumi
from fusioninfer_pulumi import capacity_package
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.extras import install_command

EXAMPLE = Path(__file__).parent.parent / "capacity" / "example"
INSTALL = install_command("capacity")


def service(gpus: int) -> str:
    role = samples.role(template=samples.template(samples.container(gpus=gpus)), accelerator="H100")
    return yaml.safe_dump(samples.service(role))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with the example package, as pip installs it."""
    shutil.copy(EXAMPLE / "team_capacity.py", tmp_path)
    info = tmp_path / "team_capacity-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team-capacity\nVersion: 1.0.0\n")
    project = (EXAMPLE / "pyproject.toml").read_text("utf-8").partition("entry-points.")[2]
    (info / "entry_points.txt").write_text(f"[fusioninfer.capacity]\n{project.partition(']')[2]}")
    points = (info / "entry_points.txt").read_text().replace('"', "")
    (info / "entry_points.txt").write_text(points)
    return tmp_path


@pytest.mark.slow
def test_example_package_works(package: Path) -> None:
    for name, gpus in {"two": 2, "three": 3, "many": 32}.items():
        (package / f"{name}.yaml").write_text(service(gpus))
    check, table, plan, diff, size = run(
        package,
        "check many.yaml",
        "plan two.yaml",
        "plan two.yaml --output=json",
        "diff two.yaml three.yaml",
        "size m",
    )
    assert "at most 16 GPUs, got 32 [gpu-budget-exceeded]" in check[2]
    assert "GPUS PER REPLICA" in table[1]
    assert json.loads(plan[1])[0]["roles"][0]["memory"] == {"gpus": 2}
    assert "2 -> 3 GPUs per replica" in diff[1]
    assert size == (0, "m: at most 16 GPUs\n", "")


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capacity_package, "load_plugins", lambda _: iter(()))
    capacity_package.load_package.cache_clear()
    yield
    capacity_package.load_package.cache_clear()


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "Qwen/Qwen3-8B", "--accelerator", "H100"),
        ("place", "a.yaml", "--inventory", "pools.yaml"),
        ("plan", "a.yaml", "--inventory", "pools.yaml"),
    ],
)
def test_command_without_its_package_prints_how_to_install_it(
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(service(1))
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert INSTALL in err


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize("name", capacity_package.NAMES)
def test_name_without_its_package_prints_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(vars(fusioninfer_pulumi), name, raising=False)
    with pytest.raises(ImportError, match=re.escape(INSTALL)):
        getattr(fusioninfer_pulumi, name)


@pytest.mark.usefixtures("no_package")
def test_services_without_a_package_are_planned_and_not_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(service(1))
    assert main(["check", "--verbose", str(path)]) == 0
    err = capsys.readouterr().err
    assert "[memory-not-checked]" in err
    assert INSTALL in err
