"""`docs/routing.md` shows what really comes out, and names every gateway and option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from samples import role

from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.routing.gateways import IMPLEMENTATIONS, PickerTls

TEXT = (Path(__file__).parents[2] / "docs" / "routing.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_example_prints_what_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    roles = [*yaml.safe_load(block("yaml"))["roles"], role(replicas=2)]
    manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "qwen"},
        "spec": {"roles": roles},
    }
    path = tmp_path / "qwen.yaml"
    path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    assert main(["plan", str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    for line in block("text").splitlines():
        assert line in printed


def test_every_gateway_has_its_row() -> None:
    section = TEXT.partition("## Gateways\n")[2].partition("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = {cells[0].split("`")[1]: cells for cells in table[1:]}
    assert list(rows) == list(IMPLEMENTATIONS)
    for name, known in IMPLEMENTATIONS.items():
        assert known.gateway_class in rows[name][1]
        assert ("always" in rows[name][2]) == (known.picker_tls is PickerTls.ALWAYS)
        assert ("ignored" in rows[name][3]) == (known.honours_failure_mode is False)


def test_every_option_of_the_picker_is_there() -> None:
    for name, field in EndpointPickerArgs.model_fields.items():
        assert f".{field.alias or name}`" in TEXT, name
