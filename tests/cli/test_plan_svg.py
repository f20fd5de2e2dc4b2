"""`plan --output svg`: the terminal's text as a picture of one file."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree as ET

import pytest
from samples import plan_of, role, service

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.plan_text import plan_svg
from fusioninfer_pulumi.plan.objects import render
from fusioninfer_pulumi.topology.topology import capacity_for_gpus


def test_a_picture_shows_the_plan_and_loads_nothing() -> None:
    plan = plan_of(service(role(replicas=2)))
    svg = plan_svg([(plan, capacity_for_gpus(plan, (8,)), list(render(plan)), None)])
    ET.fromstring(svg)  # our own text
    shown = html.unescape(re.sub(r"<[^>]+>", " ", svg)).replace("\xa0", " ")
    for words in ("svc", "inference", "GPUS FREE", "2 LeaderWorkerSets"):
        assert words in shown
    assert "url(http" not in svg


def test_the_command_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "examples/qwen-monolithic/inference-service.yaml", "--output", "svg"]) == 0
    assert capsys.readouterr().out.startswith("<svg ")
