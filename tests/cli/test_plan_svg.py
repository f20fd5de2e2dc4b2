"""`plan --output svg` draws services; the pictures of the README show the terminal's text."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from samples import plan_of, role, service

from fusioninfer_pulumi.cli.diagram import diagram
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


SVG = "{http://www.w3.org/2000/svg}"


def drawn(*sources: str, capsys: pytest.CaptureFixture[str]) -> ET.Element:
    assert main(["plan", *sources, "--output", "svg"]) == 0
    return ET.fromstring(capsys.readouterr().out)  # our own text


def words(svg: ET.Element) -> list[str]:
    return [str(each.text) for each in svg.iter(f"{SVG}text")]


def rectangles(svg: ET.Element, kind: str) -> int:
    return sum(each.get("class") == kind for each in svg.iter(f"{SVG}rect"))


def test_the_command_draws_the_way_of_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    svg = drawn("examples/deepseek-disagg", "--gpus", "64", capsys=capsys)
    texts = words(svg)
    assert texts[0] == "deepseek-r1-disagg in default: 10 pods, 80 GPUs"
    for text in (
        "clients", "Gateway", "deepseek.example.com", "InferencePool", "endpoint picker",
        "prefill (prefiller): 1 replica", "decode-1", "4 nodes x 8 GPUs", "KV cache", "prompt",
        "gang: 6 pods, 48 GPUs start together", "with 64 GPUs free: Partial, 1 prefill, 1 decode",
    ):  # fmt: skip
        assert text in texts
    # A square for each GPU of the three replicas, in frames of two roles and a gang.
    assert [rectangles(svg, kind) for kind in ("gpu", "role", "gang")] == [80, 2, 1]
    assert not list(svg.iter(f"{SVG}script"))


def test_services_stand_below_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parked = service(role(replicas=0), name="parked")
    many = service(role(replicas=30), name="many")
    (tmp_path / "two.yaml").write_text(yaml.safe_dump_all([parked, many]))
    svg = drawn(str(tmp_path / "two.yaml"), capsys=capsys)
    assert {"parked in default: 0 pods, 0 GPUs", "inference (worker): parked"} <= set(words(svg))
    assert "inference-0 … inference-29" in words(svg)
    # All of it is in the picture.
    width, height = (float(str(svg.get(name))) for name in ("width", "height"))
    groups = list(svg.iter(f"{SVG}g"))
    assert groups[0].get("transform") == "translate(0 0)"
    for group in groups:
        top = float(str(group.get("transform")).split()[1].rstrip(")"))
        for box in group.iter(f"{SVG}rect"):
            x, y, wide, high = (float(str(box.get(n))) for n in ("x", "y", "width", "height"))
            assert 0 <= x <= x + wide <= width
            assert 2 * 18 <= y <= top + y + high <= height


def test_what_users_write_is_text_in_a_picture() -> None:
    plan = plan_of(service(role(replicas=1)))
    svg = diagram([replace(plan, service='<script>&"\x1b')], [["<b>"]])
    ET.fromstring(svg)
    assert "<script>" not in svg
    assert "\x1b" not in svg
