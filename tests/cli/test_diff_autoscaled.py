"""What `diff` says of replicas that an autoscaler sets: `up` leaves them as they are."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from samples import container, plan_of, role, service, template

from fusioninfer_pulumi import render
from fusioninfer_pulumi.cli.diff import Difference, compare
from fusioninfer_pulumi.cli.main import main

SCALED = {"autoscaling": {"maxReplicas": 9, "metrics": [{"name": "queue", "target": 5}]}}
KEPT = (
    "role serve is autoscaled: `pulumi up` keeps its live replicas, and {} -> {} holds for a "
    "LeaderWorkerSet that is created"
)


def scaled(replicas: int = 2, tag: str = "v0.11.0", **more: Any) -> dict[str, Any]:
    pods = template(container(gpus=1, image=f"vllm/vllm-openai:{tag}"))
    only = role("serve", replicas=replicas, template=pods, **(SCALED | more))
    return service(only, layout="PerRole")


def between(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    plans = plan_of(old), plan_of(new)
    return compare(*(list(render(plan)) for plan in plans), plans=([plans[0]], [plans[1]]))


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_a_count_that_stays_is_no_change(before: int, after: int) -> None:
    found = between(scaled(before), scaled(after))
    assert found.notes == (KEPT.format(before, after),)
    assert (found.objects, found.effects, found.totals) == ((), (), ())
    assert found  # it is told


def test_what_changes_beside_it_is_shown_alone() -> None:
    found = between(scaled(2), scaled(3, "v0.12.0"))
    assert KEPT.format(2, 3) in found.notes
    (effect,) = found.effects
    assert (effect.replicas_before, effect.replicas_after, effect.added) == (2, 2, ())
    (total,) = found.totals
    assert (total.pods_before, total.pods_after) == (2, 2)
    (change,) = found.objects
    assert [field.path for field in change.fields if field.path == "spec.replicas"] == []


def test_a_role_that_becomes_autoscaled_keeps_its_count_too() -> None:
    found = between(scaled(2, autoscaling=None), scaled(3))
    assert KEPT.format(2, 3) in found.notes
    assert {change.kind for change in found.objects} == {"HorizontalPodAutoscaler"}


def test_one_that_is_no_longer_gets_the_count_of_the_manifest() -> None:
    found = between(scaled(2), scaled(3, autoscaling=None))
    assert not any("autoscaled" in note for note in found.notes)
    assert any(note.startswith("role serve: replicas 2 -> 3") for note in found.notes)


def test_without_autoscaling_nothing_is_kept() -> None:
    found = between(scaled(2, autoscaling=None), scaled(3, autoscaling=None))
    assert found.notes == (
        "role serve: replicas 2 -> 3 (1 LeaderWorkerSet changed), nothing restarts",
    )
    assert between(scaled(2), scaled(2)) == Difference()


def test_every_format_tells_it(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, replicas in (("old.yaml", 2), ("new.yaml", 3)):
        (tmp_path / name).write_text(yaml.safe_dump(scaled(replicas)))
    for output in ("text", "markdown", "json"):
        assert main(["diff", "old.yaml", "new.yaml", "--output", output]) == 1
        assert "keeps its live replicas" in capsys.readouterr().out
