"""The committed objects next to each example project are current."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fusioninfer_pulumi import load, plan_service, render
from fusioninfer_pulumi.cli.main import main

ROOT = Path(__file__).parent.parent
#: Programs in Python; `test_templates` plans the one in YAML.
EXAMPLES = sorted(
    path.parent
    for path in ROOT.glob("examples/**/Pulumi.yaml")
    if (path.parent / "__main__.py").exists()
)


def rendered(capsys: pytest.CaptureFixture[str], source: Path) -> str:
    assert main(["render", str(source)]) == 0
    return capsys.readouterr().out


def test_examples_exist() -> None:
    assert [path.name for path in EXAMPLES] == [
        "deepseek-disagg",
        "platform-stack",
        "consumer",
        "qwen-monolithic",
    ]


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_example_renders_the_committed_objects(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    # `make regenerate` updates it.
    assert rendered(capsys, folder) == (folder / "expected.yaml").read_text(encoding="utf-8")


def test_example_manifest_equals_its_program() -> None:
    folder = ROOT / "examples" / "qwen-monolithic"
    (args,) = load(folder / "inference-service.yaml")
    committed = yaml.safe_load_all((folder / "expected.yaml").read_text(encoding="utf-8"))
    assert list(committed) == list(render(plan_service(args)))


def test_root_project_deploys_configured_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (ROOT / "examples" / "qwen-monolithic" / "expected.yaml").read_text(encoding="utf-8")
    assert rendered(capsys, ROOT) == wanted
