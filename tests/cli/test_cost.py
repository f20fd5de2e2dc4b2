"""`--prices`: what a day of a service costs, and what a change costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import container, role, service, template

from fusioninfer_pulumi.cli.main import main

H100 = "NVIDIA-H100-80GB-HBM3"


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def gpus(count: str = "2", replicas: int = 3, name: str = "inference", **more: Any) -> Any:
    spec = {"nodeSelector": more.pop("selector")} if "selector" in more else {}
    serving = container(gpus=count, args=["--model", "m", "--tensor-parallel-size", count])
    return role(name, replicas=replicas, template=template(serving, **spec), **more)


PRICES = {"currency": "EUR", "gpuHour": {"H100": 2.9, "default": 0.5}}


def test_each_role_has_the_price_of_its_accelerators(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = service(
        gpus(accelerator="h100"),
        gpus(name="labelled", replicas=1, selector={"nvidia.com/gpu.product": H100}),
        gpus(name="other", replicas=1),
        role("cpu"),
    )
    source, prices = file("service.yaml", manifest), file("prices.yaml", PRICES)
    assert main(["plan", source, "--prices", prices]) == 0
    amount = 24 * (8 * 2.9 + 2 * 0.5)
    assert capsys.readouterr().out.endswith(f"\na day costs 240 GPU-hours, {amount:.2f} EUR\n")
    assert main(["plan", source, "--prices", prices, "--output", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["cost"] == {"gpuHoursPerDay": 240, "amountPerDay": amount, "currency": "EUR"}
    assert main(["plan", source, "--output", "json"]) == 0
    assert "cost" not in json.loads(capsys.readouterr().out)[0]


def test_a_difference_says_what_it_costs(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (file(f"{count}.yaml", service(gpus(replicas=count))) for count in (1, 2))
    prices = file("prices.yaml", PRICES)
    assert main(["diff", old, new, "--prices", prices]) == 1
    wanted = "a day costs 96 GPU-hours, 48.00 EUR instead of 48 GPU-hours, 24.00 EUR"
    assert f"default/svc: {wanted}" in " ".join(capsys.readouterr().out.split())
    assert main(["diff", old, old, "--prices", prices]) == 0


def test_rendered_objects_have_no_cost(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source, prices = file("service.yaml", service(gpus())), file("prices.yaml", PRICES)
    assert main(["render", source]) == 0
    objects = file("objects.yaml", capsys.readouterr().out)
    assert main(["diff", objects, source, "--prices", prices]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("output", ["text", "json", "html"])
def test_the_surge_of_an_update_has_a_price(
    file: Any, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """A renamed role runs beside the old one: six H100 more for the 45 minutes of its start."""
    names = ("old", "new")
    old, new = (
        file(f"{name}.yaml", service(gpus(name=name, accelerator="H100"))) for name in names
    )
    prices = file("prices.yaml", PRICES)
    if output == "html":
        assert main(["diff", old, new, "--prices", prices, "--output", "html"]) == 1
    else:
        words = ["plan", new, "--update", old, "--prices", prices, "--output", output]
        assert main(words) == 0
    printed = capsys.readouterr().out
    amount = round(6 * 0.75 * 2.9, 2)
    if output == "json":
        (plan,) = json.loads(printed)
        assert plan["update"]["extraGpuHours"] == 6 * 0.75
        assert plan["update"]["extraAmount"] == amount
    else:
        text = f"At most 4.5 GPU-hours, {amount:.2f} EUR beyond those before and after."
        assert text in printed


def test_the_price_of_a_role_that_is_gone_is_asked_for(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rendered objects do not say which accelerators a role had."""
    assert main(["render", file("old.yaml", service(gpus(name="old")))]) == 0
    old = file("objects.yaml", capsys.readouterr().out)
    new = file("new.yaml", service(gpus(accelerator="H100")))
    prices = file("prices.yaml", {"gpuHour": {"H100": 2.9}})
    assert main(["plan", new, "--update", old, "--prices", prices]) == 2
    assert "no price for role old of svc: add default to gpuHour" in capsys.readouterr().err
    prices = file("prices.yaml", {"gpuHour": {"H100": 2.9, "default": 1}})
    assert main(["plan", new, "--update", old, "--prices", prices]) == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[", "cannot be read: "),
        ("H100: 2", "must look like {currency: "),
        ("{gpuHour: {}}", "must look like {currency: "),
        ("{gpuHour: {H100: much}}", 'gpuHour.H100: must be a price such as 2.90, got "much"'),
        ("{gpuHour: {H100: -1}}", "gpuHour.H100: must be a price such as 2.90, got -1"),
        ("{gpuHour: {H100: true}}", "gpuHour.H100: must be a price such as 2.90, got true"),
        ("{gpuHour: {H200: 3}}", "no price for role inference of svc (its accelerator is not"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "diff"])
def test_a_table_that_is_of_no_use_is_refused(
    file: Any, capsys: pytest.CaptureFixture[str], content: str, problem: str, command: str
) -> None:
    source, prices = file("service.yaml", service(gpus())), file("prices.yaml", content)
    sources = [source, file("new.yaml", service(gpus(replicas=1)))][: 1 + (command == "diff")]
    assert main([command, *sources, "--prices", prices]) == 2
    assert problem in capsys.readouterr().err


def test_a_table_that_is_not_there_is_said(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source = file("service.yaml", service(gpus()))
    assert main(["plan", source, "--prices", "absent.yaml"]) == 2
    assert "absent.yaml: cannot be read" in capsys.readouterr().err
