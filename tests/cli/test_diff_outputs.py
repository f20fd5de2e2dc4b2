"""Whole outputs of `diff`, case by case.

The expected files stand in `test_diff_expected`. After a wanted change of the wording, write them
with `pytest tests/cli/test_diff_outputs.py --regenerate`, and read the difference.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.printed import to_text

from fusioninfer_pulumi.cli.diff import compare, to_json, to_markdown

Manifest = dict[str, Any]

EXPECTED = Path(__file__).parent / "test_diff_expected"


def container(**changes: Any) -> Manifest:
    return {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "Qwen/Qwen3-8B"],
        "env": [{"name": "HF_HOME", "value": "/models"}, {"name": "TOKEN", "value": "<secret>"}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        **changes,
    }


def lws(  # what a replica of the library looks like, with less in it
    role: str,
    index: int,
    *,
    service: str = "qwen",
    size: int = 2,
    gang: bool = True,
    revision: str = "aaaa",
    labels: dict[str, str] | None = None,
    extra: Manifest | None = None,
    **changes: Any,
) -> Manifest:
    own = {
        "fusioninfer.io/service": service,
        "fusioninfer.io/role-name": role,
        "fusioninfer.io/replica-index": str(index),
        "fusioninfer.io/revision": revision,
    }
    template: Manifest = {
        "metadata": {"labels": own},
        "spec": {"containers": [container(**changes)]},
    }
    if gang:
        template["metadata"]["annotations"] = {
            "scheduling.k8s.io/group-name": service,
            "volcano.sh/task-spec": f"{role}-{index}",
        }
        template["spec"]["schedulerName"] = "volcano"
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": f"{service}-{role}-{index}",
            "namespace": "default",
            "labels": {**(labels or {}), **own},
        },
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": size,
                "leaderTemplate": template,
                "workerTemplate": copy.deepcopy(template),
                **(extra or {}),
            },
        },
    }


def pod_group(tasks: dict[str, int], *, service: str = "qwen", **labels: str) -> Manifest:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": service, "labels": {**labels, "fusioninfer.io/service": service}},
        "spec": {"minMember": sum(tasks.values()), "minTaskMember": tasks},
    }


def service(**options: Any) -> list[Manifest]:
    """One prefill replica of 2 pods and some decode replicas of 2 pods, ganged."""
    decodes = options.pop("decodes", 2)
    name = options.get("service", "qwen")
    tasks = {"prefill-0": 2, **{f"decode-{index}": 2 for index in range(decodes)}}
    labels = options.get("labels") or {}
    return [
        *([pod_group(tasks, service=name, **labels)] if options.get("gang", True) else []),
        lws("prefill", 0, **options),
        *(lws("decode", index, **options) for index in range(decodes)),
    ]


def picker(image: str) -> Manifest:
    labels = {"fusioninfer.io/service": "qwen", "fusioninfer.io/component-type": "router"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen-epp", "labels": labels},
        "spec": {"template": {"spec": {"containers": [{"name": "epp", "image": image}]}}},
    }


def config(text: str) -> Manifest:
    labels = {"fusioninfer.io/service": "qwen"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "qwen-epp-config", "labels": labels},
        "data": {"config.yaml": text},
    }


NEW_IMAGE = {"image": "vllm/vllm-openai:v0.12.0", "revision": "bbbb"}
MIDDLE_ENV = [
    {"name": "HF_HOME", "value": "/models"},
    {"name": "NCCL_DEBUG", "value": "INFO"},
    {"name": "TOKEN", "value": "<secret>"},
]
LINES = "plugins:\n- type: queue-scorer\n- type: prefix-cache-scorer\nschedulingProfiles:\n- a\n"

Case = tuple[list[Manifest], list[Manifest]]
CASES: dict[str, Case] = {
    "image": (
        service(),
        [*service()[:2], lws("decode", 0, **NEW_IMAGE), lws("decode", 1, **NEW_IMAGE)],
    ),
    "replicas-up": (service(), service(decodes=3)),
    "replicas-down": (service(), service(decodes=1)),
    "role-removed": (service(), [pod_group({"prefill-0": 2}), lws("prefill", 0)]),
    "env-in-the-middle": (service(), service(env=MIDDLE_ENV)),
    "metadata": (service(), service(labels={"team": "search"})),
    "gang-on": (service(gang=False), service()),
    "renamed": (service(), service(service="qwen3")),
    "replaced": (service(), service(extra={"subGroupPolicy": {"subGroupSize": 2}})),
    "many": (service(decodes=20, gang=False), service(decodes=20, gang=False, **NEW_IMAGE)),
    "picker": (
        [*service(), picker("epp:v1.0.0"), config(LINES)],
        [*service(), picker("epp:v1.1.0"), config(LINES.replace("queue", "kv-cache"))],
    ),
    "nothing": (service(), list(reversed(service()))),
}


def as_json(case: Case) -> str:
    return json.dumps(to_json(compare(*case)), indent=1) + "\n"


FORMS: dict[str, Callable[[Case], str]] = {
    "txt": lambda case: to_text(compare(*case)),
    "md": lambda case: to_markdown(compare(*case)),
    "json": as_json,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_output(name: str, form: str, regenerate: bool) -> None:
    written = FORMS[form](CASES[name])
    expected = EXPECTED / f"{name}.{form}"
    if regenerate:
        expected.write_text(written, encoding="utf-8")
    assert written == expected.read_text(encoding="utf-8")


def test_no_expected_file_is_left_over() -> None:
    assert {path.name for path in EXPECTED.iterdir()} == {
        f"{name}.{form}" for name in CASES for form in FORMS
    }
