"""The package of capacity by its entry point: one of docs/capacity.md, and none at all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples
import yaml

import fusioninfer_pulumi
from fusioninfer_pulumi import capacity
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.extras import install_command

PAGE = (Path(__file__).parent.parent / "docs" / "capacity.md").read_text("utf-8")
INSTALL = install_command("capacity")


def block(title: str) -> str:
    match = re.search(rf'```\w+ title="{title}"\n(.*?)```', PAGE, re.DOTALL)
    assert match is not None
    return match[1]


def service(gpus: int) -> str:
    role = samples.role(template=samples.template(samples.container(gpus=gpus)), accelerator="H100")
    return yaml.safe_dump(samples.service(role))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package of the page, as pip installs it."""
    (tmp_path / "team_capacity.py").write_text(block("team_capacity.py"))
    info = tmp_path / "team_capacity-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team-capacity\nVersion: 1.0.0\n")
    project = block("pyproject.toml").partition("entry-points.")[2]
    (info / "entry_points.txt").write_text(f"[fusioninfer.capacity]\n{project.partition(']')[2]}")
    points = (info / "entry_points.txt").read_text().replace('"', "")
    (info / "entry_points.txt").write_text(points)
    return tmp_path


def ran(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fusioninfer_pulumi.cli.main", *arguments],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package)},
        text=True,
        capture_output=True,
        check=False,
    )


def test_the_package_of_the_page_works(package: Path) -> None:
    (package / "two.yaml").write_text(service(2))
    (package / "many.yaml").write_text(service(32))
    assert "gpu-budget-exceeded" in ran(package, "check", "many.yaml").stderr
    plan = ran(package, "plan", "two.yaml")
    assert "GPUS OF A REPLICA" in plan.stdout, plan.stderr
    (read,) = json.loads(ran(package, "plan", "two.yaml", "--output=json").stdout)
    assert read["roles"][0]["memory"] == {"gpus": 2}
    (package / "three.yaml").write_text(service(3))
    assert "2 -> 3 GPUs of a replica" in ran(package, "diff", "two.yaml", "three.yaml").stdout
    assert ran(package, "size", "m").stdout == "m: at most 16 GPUs\n"


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capacity, "plugins", lambda _: iter(()))
    capacity.capacity.cache_clear()
    yield
    capacity.capacity.cache_clear()


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "Qwen/Qwen3-8B", "--accelerator", "H100"),
        ("place", "a.yaml", "--inventory", "pools.yaml"),
        ("plan", "a.yaml", "--inventory", "pools.yaml"),
    ],
)
def test_commands_without_a_package_say_how_to_install_it(
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
@pytest.mark.parametrize("name", capacity.NAMES)
def test_names_without_a_package_say_how_to_install_it(
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
