"""The option `--inventory` of `plan`, `render` and `check`: placements and their reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from printed_findings import without_rules

from capacity.tests.placing import LABEL, pair, pool, where, worker
from fusioninfer_capacity import place
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.loading import load

POOLS = [
    pool("a", 4, taints=[{"key": "nvidia.com/gpu", "value": "x", "effect": "NoSchedule"}], cost=2),
    pool("b", 4, 4, inUse=[2]),
]
SERVICES = [pair("chat", (1, 2, 8), (2, 1, 4)), worker("lone", placement={"pools": ["a"]})]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pools.yaml").write_text(yaml.safe_dump({"poolLabel": LABEL, "pools": POOLS}))
    Path("all.yaml").write_text(yaml.safe_dump_all(SERVICES))
    for service in SERVICES:
        Path(f"{service['metadata']['name']}.yaml").write_text(yaml.safe_dump(service))
    Path("large.yaml").write_text(yaml.safe_dump(worker("large", 3)))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    return status, *capsys.readouterr()


def placed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, _ = run(capsys, "plan", *arguments, "--inventory", "pools.yaml", "--output=json")
    assert status == 0
    return json.loads(out)


def test_placement_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    chat, lone = placed(capsys, "all.yaml")
    pools = [
        {"name": "a", "nodes": 4, "accelerators": 32, "inUse": 0, "placed": 24, "left": 8,
         "wholeNodes": 1, "certain": True},
        {"name": "b", "nodes": 4, "accelerators": 16, "inUse": 2, "placed": 8, "left": 6,
         "wholeNodes": 1, "certain": True},
    ]  # fmt: skip
    new: dict[str, Any] = {"deviceClasses": [], "origin": "chosen", "previous": None}
    assert chat["placement"] == {
        "status": "Placed",
        "roles": [
            {"name": "prefill", "pool": "a", "replicas": 1, "wanted": 1, "accelerators": 16, **new},
            {"name": "decode", "pool": "b", "replicas": 2, "wanted": 2, "accelerators": 8, **new},
        ],
        "terms": [
            {"name": "riskyPools", "value": 0},
            {"name": "cost", "value": "32"},
            {"name": "pools", "value": 2},
            {"name": "strandedAccelerators", "value": 0},
            {"name": "wholeNodeAccelerators", "value": 20},
            {"name": "order", "value": "1, 2"},
        ],
        "rejected": [
            {"pools": {"prefill": "a", "decode": "a"},
             "reason": "pools that fit only if packed well: 1 instead of 0"},
        ],
        "impossible": {
            "prefill": {"b": ["a pod needs 8 accelerators, but nodes have 4"]},
            "decode": {},
        },
        "nearest": None,
        "pools": pools,
        "proven": True,
    }  # fmt: skip
    assert lone["placement"]["roles"][0]["pool"] == "a"
    assert lone["placement"]["pools"] == pools
    # `placement` was applied, so no warning says that it has no effect.
    assert not any("placement" in finding["path"] for finding in lone["findings"])


def test_json_without_inventory_has_no_placement(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plan", "all.yaml", "--output=json")
    assert status == 0
    assert not any("placement" in item for item in json.loads(out))


def test_text_has_pool_reason_and_free_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plan", "all.yaml", "--inventory", "pools.yaml")
    assert status == 0
    assert (
        """
Placement  Placed
  prefill  on a  16 GPUs, chosen
  decode   on b  8 GPUs, chosen
  compared by (lower is better): pools that fit only if packed well: 0, price: 32, \
pools used: 2, free accelerators added on used nodes: 0, accelerators left on empty nodes: 20
  rejected: prefill on b               a pod needs 8 accelerators, but nodes have 4
  rejected: prefill on a, decode on a  pools that fit only if packed well: 1 instead of 0
"""
        in out
    )
    assert out.endswith("""
POOL  NODES  GPUS  IN USE  PLACED  LEFT  WHOLE NODES LEFT
a         4    32       0      24     8                 1
b         4    16       2       8     6                 1
""")


def test_placement_reuses_plans(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("fusioninfer_capacity.placement.placing.plan_service")
    assert len(placed(capsys, "all.yaml")) == 2


def test_several_files_are_placed_together(capsys: pytest.CaptureFixture[str]) -> None:
    both = placed(capsys, "chat.yaml", "lone.yaml")
    assert [item["service"] for item in both] == ["chat", "lone"]
    assert both == placed(capsys, "all.yaml")


def test_rendered_objects_select_the_chosen_pool(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "render", "chat.yaml", "lone.yaml", "--inventory", "pools.yaml")
    assert status == 0
    result = {}
    for item in yaml.safe_load_all(out):
        if item["kind"] == "LeaderWorkerSet":
            template = item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
            result[item["metadata"]["name"]] = (
                template["nodeSelector"][LABEL],
                len(template.get("tolerations", [])),
            )
    assert result == {
        "chat-prefill-0": ("a", 1),
        "chat-decode-0": ("b", 0),
        "chat-decode-1": ("b", 0),
        "lone-serve-0": ("a", 1),
    }
    # `place` returns the same to a program.
    services = place(load("all.yaml"), "pools.yaml")
    assert where(services)["chat"] == {"prefill": "a", "decode": "b"}


def test_unplaced_service_is_explained_and_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    missing = "2 more nodes of a (16 accelerators)"
    expected = f"the closest combination, serve on a, requires {missing}\n"
    sources = ("chat.yaml", "large.yaml", "lone.yaml", "--inventory", "pools.yaml")
    status, out, err = run(capsys, "plan", *sources)
    assert status == 2
    assert without_rules(err).endswith(f"large.yaml: placement: does not fit; {expected}")
    assert "Placement  Unplaced\n  closest: serve on a; requires 2 more nodes of a" in out
    status, out, _ = run(capsys, "plan", *sources, "--output=json")
    assert status == 2
    chat, large, _ = json.loads(out)
    assert chat["placement"]["status"] == "Placed"
    assert large["placement"]["nearest"] == {
        "pools": {"serve": "a"},
        "missing": [{"pool": "a", "nodes": 2, "accelerators": 16}],
    }
    status, out, err = run(capsys, "plan", *sources, "--update", "chat.yaml")
    assert (status, out, err.count("does not fit")) == (2, "", 1)
    for command in ("render", "check"):
        status, out, err = run(capsys, command, *sources)
        assert (status, out) == (2, "")
        assert expected in without_rules(err)


def test_check_with_inventory_applies_placement(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "check", "--strict", "lone.yaml")
    assert status == 2
    assert "roles[0].placement: has no effect by itself" in err
    assert run(capsys, "check", "--strict", "lone.yaml", "--inventory", "pools.yaml") == (0, "", "")


def test_placement_fields_need_an_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    large = worker("large", 9, placement={"pools": ["a"]})
    large["spec"]["placement"] = {"colocate": "topology.kubernetes.io/zone"}
    Path("large.yaml").write_text(yaml.safe_dump(large))
    assert "no effect by itself" in run(capsys, "check", "large.yaml")[2]
    for command in ("plan", "render", "check"):
        for pools in ("pools.yaml", "none.yaml"):
            status, out, err = run(capsys, command, "large.yaml", "--inventory", pools)
            assert status == 2
            assert "no effect by itself" not in out + err


def test_running_service_stays_in_previous_pool(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pools.yaml").write_text(yaml.safe_dump({"poolLabel": LABEL, "pools": [
        pool("x", 2), pool("y", 2)]}))  # fmt: skip
    Path("lone.yaml").write_text(yaml.safe_dump(worker("lone", 2)))
    first = placed(capsys, "lone.yaml")
    Path("placed.json").write_text(json.dumps(first))
    Path("front.yaml").write_text(yaml.safe_dump(worker("front", 2)))
    moved = placed(capsys, "front.yaml", "lone.yaml")
    assert moved[1]["placement"]["roles"][0]["pool"] == "y"
    kept = placed(capsys, "front.yaml", "lone.yaml", "--previous", "placed.json")
    assert kept[1]["placement"]["roles"][0] == {
        **first[0]["placement"]["roles"][0], "origin": "kept", "previous": "x"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("chat.yaml", "--inventory", "none.yaml"),
         "none.yaml: cannot be read: No such file or directory"),
        (("chat.yaml", "--inventory", "chat.yaml"), "chat.yaml: kind: must be NodePoolInventory"),
        (("chat.yaml", "--inventory", "odd.yaml"), "odd.yaml: pools[0].resource: "),
        (("chat.yaml", "--inventory", "pools.yaml", "--previous", "pools.yaml"),
         "pools.yaml: not JSON"),
        (("chat.yaml", "--inventory", "pools.yaml", "--previous", "none.json"),
         "none.json: cannot be read"),
        (("chat.yaml", "--previous", "pools.yaml"), "pools.yaml: --previous has no effect without"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["plan", "render", "check"])
def test_invalid_files_are_rejected_in_one_line_each(
    capsys: pytest.CaptureFixture[str], command: str, arguments: tuple[str, ...], expected: str
) -> None:
    odd = {"poolLabel": LABEL, "pools": [pool("a", 1, resource="example.com/x")]}
    Path("odd.yaml").write_text(yaml.safe_dump(odd))
    status, out, err = run(capsys, command, *arguments)
    assert status == 2
    assert out == ""
    assert any(line.startswith(expected) for line in without_rules(err).splitlines())
    assert "Traceback" not in err


def test_a_program_places_its_services_itself(capsys: pytest.CaptureFixture[str]) -> None:
    project = Path(__file__).parent.parent.parent / "examples" / "qwen-monolithic"
    expected = f"{project}: is a Pulumi project; call place(...) in its program instead\n"
    for sources in ([str(project)], ["lone.yaml", str(project)]):
        for command in ("plan", "place"):
            status, out, err = run(capsys, command, *sources, "--inventory", "pools.yaml")
            assert (status, out) == (2, "")
            assert without_rules(err).endswith(expected)
