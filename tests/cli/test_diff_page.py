"""`diff --output html`: one page, with the restarts in their order and the peak of GPUs."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Any

from samples import container, plan_of, role, service, template

from fusioninfer_pulumi.cli.diff import compare, to_html
from fusioninfer_pulumi.cli.diff.timelines import timelines
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.plan.objects import render


def page(old: Any, new: Any, *findings: Any) -> str:
    plans = plan_of(old), plan_of(new)
    objects = [list(render(plan)) for plan in plans]
    difference = compare(*objects, plans=([plans[0]], [plans[1]]))
    sides = [plans[0]], [plans[1]]
    return to_html(difference, sides, findings, timelines(*objects, sides))


def text(written: str) -> str:
    cells = re.sub(r"<style>.*?</style>", "", written, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cells)).split())


def one(replicas: int, image: str = "vllm/vllm-openai:v0.11.0", gpus: int = 8) -> Any:
    return service(role(replicas=replicas, template=template(container(gpus=gpus, image=image))))


class Tags(HTMLParser):
    """Checks that tags nest, and that nothing is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        assert tag != "script"
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_one_file_whose_tags_nest() -> None:
    tags = Tags()
    tags.feed(page(one(2), one(3, image="vllm/vllm-openai:v0.11.2")))
    assert tags.open == []


def test_restarts_stand_in_their_order_and_the_peak_is_marked() -> None:
    shown = text(page(one(2), one(3, image="vllm/vllm-openai:v0.11.2")))
    assert "step 1 step 2 svc / inference inference-1 inference-0" in shown
    assert "before 16 new replicas are created 24 (peak) step 1 24 step 2 24" in shown


def test_what_restarts_larger_raises_the_gpus_step_by_step() -> None:
    shown = text(page(one(2, gpus=4), one(2, gpus=8)))
    assert "before 8 step 1 12 step 2 16 (peak)" in shown


def test_what_is_removed_goes_last() -> None:
    shown = text(page(one(3), one(1, image="vllm/vllm-openai:v0.11.2")))
    assert "before 24 (peak) step 1 24 removed replicas are deleted 8" in shown


def test_input_is_text_never_html() -> None:
    found = ("<b>.yaml", Finding("some-rule", Severity.WARNING, ("roles", 0), "odd <script>"))
    hostile = {"name": "NOTE", "value": "<script>alert(1)</script>"}
    new = service(role(replicas=1, template=template(container(gpus=8, env=[hostile]))))
    written = page(one(1), new, found)
    assert "<script" not in written
    assert "odd &lt;script&gt;" in written
    assert "[some-rule]" in written


def test_no_difference_is_a_page_too() -> None:
    assert "no difference" in text(page(one(1), one(1)))


def test_the_slowest_update_has_a_row_for_each_turn() -> None:
    shown = text(page(one(2), one(3, image="vllm/vllm-openai:v0.11.2")))
    assert "turn begins by restarts starts inference gpus before 2 16" in shown
    assert "1 0s inference-1 inference-2 1 24 2 45m inference-0 2 24 after 1h30m 3 24" in shown


def test_many_turns_are_counted() -> None:
    shown = text(page(one(30), one(30, image="vllm/vllm-openai:v0.11.2")))
    assert "24 17h15m inference-6 29 240 after 22h30m 30 240" in shown
    assert "… and 6 more turns before the last row" in shown


def test_an_update_without_turns_has_no_section() -> None:
    assert "slowest" not in text(page(one(3), one(2)))
