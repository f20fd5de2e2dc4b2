"""Notes about a changed engine release."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli.printed import to_text
from rows import each_row
from samples import container, role, service, template

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.cli.diff import compare, to_json, to_markdown
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render

VLLM = "vllm/vllm-openai:v"
OLD = ["--model", "m", "--task=generate", "--swap-space=4"]
NEW = ["--model", "m"]


def objects(release: str, args: list[str], *, replicas: int = 1, **more: Any) -> list[Any]:
    result = container(gpus=1, image=VLLM + release, args=args)
    (args_,) = load(service(role(template=template(result), replicas=replicas), **more))
    return list(render(plan_service(args_)))


def notes(old: list[Any], new: list[Any]) -> list[str]:
    return [note for note in compare(old, new).notes if "vLLM" in note]


def test_removed_arguments_are_noted_once_for_each_role() -> None:
    old, new = objects("0.11.0", OLD, replicas=3), objects("0.33.0", NEW, replicas=3)
    removed, defaults = notes(old, new)
    assert removed == (
        "role inference, vLLM 0.11.0 -> 0.33.0: no longer accepts --task, --swap-space"
    )
    # Defaults that are null, which the engine chooses at startup, are only in the JSON output.
    assert defaults == (
        'role inference, vLLM 0.11.0 -> 0.33.0: changed defaults: --allowed-origins ["*"] -> [], '
        "--gpu-memory-utilization 0.9 -> 0.92"
    )


def test_all_formats_contain_changed_arguments() -> None:
    actual = compare(objects("0.11.0", OLD), objects("0.33.0", NEW))
    assert "no longer accepts --task" in to_text(actual)
    assert "no longer accepts --task" in to_markdown(actual)
    (change,) = to_json(actual)["engines"]
    assert {key: change[key] for key in ("service", "namespace", "role", "engine")} == {
        "service": "svc",
        "namespace": "default",
        "role": "inference",
        "engine": "vLLM",
    }
    assert change["release"] == {"before": "0.11.0", "after": "0.33.0"}
    assert {"name": "--swap-space", "instead": None} in change["removed"]
    memory = {"name": "--gpu-memory-utilization", "before": 0.9, "after": 0.92}
    assert memory in change["defaults"]


@pytest.mark.parametrize("release", ["0.11.0", "0.11.0-patched", "0.99.0"])
def test_equal_and_unknown_releases_have_no_notes(release: str) -> None:
    actual = compare(objects("0.11.0", OLD), objects(release, ["--model", "n"]))
    assert actual.objects
    assert actual.engines == ()


def test_script_of_a_launcher_is_parsed() -> None:
    wide = {"nodeCount": 2, "launcher": "ray"}

    def render_release(release: str, args: list[str]) -> list[Any]:
        pod = template(container(gpus=1, image=VLLM + release, args=args))
        whole = service(role(template=pod, multinode=wide))
        (args_,) = load(whole)
        return list(render(plan_service(args_)))

    (change,) = compare(render_release("0.11.0", OLD), render_release("0.17.1", NEW)).engines
    assert [entry.name for entry in change.removed] == ["--task"]


@each_row("containers", [None, 7, [7], [{"name": 7}], {"a": 1}])
def test_invalid_manifests_are_skipped(containers: Any) -> None:
    old, new = (
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "a"},
            "spec": {
                "replicas": replicas,
                "leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}},
            },
        }
        for replicas in (1, 2)
    )
    assert compare([old], [new]).engines == ()


SOURCE = (
    "(vLLM 0.11.0 to 0.33.0, compute_nixl_compatibility_hash and KVTransferConfig; "
    "measured with 0.12.0, 0.17.0, 0.28.0, 0.31.0 and 0.32.0)"
)
COMPUTES = "decode computes these prompts itself"
ADD = (
    "these requests fail with HTTP 500; before this update, add "
    '"kv_load_failure_policy": "recompute" to --kv-transfer-config'
)
EXITS = "the decode engine exits, and all requests on it fail"
PAIRS = (
    "old prefill with new decode pods (release {0} -> {1})",
    "new prefill with old decode pods (release {1} -> {0})",
)


@pytest.mark.parametrize(
    ("releases", "policies", "expected"),
    [
        (("0.31.0", "0.32.0"), (None, None), [f"broken: {', '.join(PAIRS)}: {ADD}"]),
        (
            ("0.31.0", "0.32.0"),
            (None, "recompute"),
            [f"broken: {PAIRS[1]}: {ADD}", f"degraded: {PAIRS[0]}: {COMPUTES}"],
        ),
        (
            ("0.31.0", "0.32.0"),
            ("recompute", "recompute"),
            [f"degraded: {', '.join(PAIRS)}: {COMPUTES}"],
        ),
        (("0.31.0", "0.31.0"), (None, None), []),
        # Decode engines survive the difference from 0.22 on.
        (("0.15.0", "0.16.0"), (None, None), [f"broken: {', '.join(PAIRS)}: {EXITS}"]),
        (
            ("0.21.0", "0.22.0"),
            ("recompute", "recompute"),
            [f"broken: {PAIRS[1]}: {EXITS}", f"degraded: {PAIRS[0]}: {COMPUTES}"],
        ),
    ],
)
def test_mixed_prefill_decode_revisions_are_noted(
    releases: tuple[str, str], policies: tuple[str | None, str | None], expected: list[str]
) -> None:
    def pair(release: str, policy: str | None, seed: int) -> list[Any]:
        settings = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        settings |= {"kv_load_failure_policy": policy} if policy else {}
        args = ["--model", "m", "--kv-transfer-config", json.dumps(settings), f"--seed={seed}"]
        pods = template(container(gpus=1, image=VLLM + release, args=args))
        roles = [role(name, kind, template=pods)
                 for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))]  # fmt: skip
        (args_,) = load(service(*roles))
        return list(render(plan_service(args_)))

    old, new = (pair(*side) for side in zip(releases, policies, (0, 1), strict=True))
    lines = [note for note in notes(old, new) if "mixed" in note]
    assert lines == [f"mixed revisions, {item} {SOURCE}".format(*releases) for item in expected]
