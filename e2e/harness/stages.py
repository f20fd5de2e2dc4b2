"""kwok stages, which simulate the life of a bound pod.

The label or annotation BEHAVIOR selects a pod's stage; by default it becomes ready immediately.
DELAY is how long a slow pod takes (`5s`, by default three seconds).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from e2e.catalog import manifests
from e2e.harness.resources import Object

BEHAVIOR = "e2e.fusioninfer.io/behavior"
DELAY = "e2e.fusioninfer.io/delay"

SLOW = "slow"
FAILING = "failing"
"""Reaches phase Failed, like an evicted pod."""
CRASHING = "crashing"
"""Has a container in CrashLoopBackOff that restarted once."""
UNPULLABLE = "unpullable"
"""Is bound, but its image cannot be pulled."""

SLOW_MILLISECONDS = 3000
ADDITIONAL_STAGES = Path(__file__).with_name("stages.yaml")


def write_stages(path: Path) -> Path:
    upstream = {_name(s): s for file in manifests("kwok", "stages") for s in _read(file)}
    ready = upstream["pod-ready"]
    slow = copy.deepcopy(ready)
    slow["metadata"]["name"] = "pod-slow"
    slow["spec"]["delay"] = {
        "durationMilliseconds": SLOW_MILLISECONDS,
        "durationFrom": {"expressionFrom": _make_jq(DELAY)},
    }
    delete = copy.deepcopy(upstream["pod-delete"])
    # kwok picks any of several matching stages, and `pod-ended` must precede with a finalizer.
    expressions = delete["spec"]["selector"]["matchExpressions"]
    expressions.append({"key": ".metadata.finalizers", "operator": "DoesNotExist"})
    additional = {_name(stage): stage for stage in _read(ADDITIONAL_STAGES)}
    stages = [
        upstream["node-initialize"],
        upstream["pod-complete"],
        delete,
        _restrict(ready, "NotIn", SLOW, FAILING, CRASHING, UNPULLABLE),
        _restrict(slow, "In", SLOW),
        additional["pod-ended"],
        _restrict(additional["pod-failing"], "In", FAILING),
        _restrict(additional["pod-crashing"], "In", CRASHING),
        _restrict(additional["pod-unpullable"], "In", UNPULLABLE),
    ]
    path.write_text(yaml.safe_dump_all(stages), encoding="utf-8")
    return path


def _restrict(stage: Object, operator: str, *behaviors: str) -> Object:
    requirement = {"key": _make_jq(BEHAVIOR), "operator": operator, "values": list(behaviors)}
    narrowed = copy.deepcopy(stage)
    narrowed["spec"]["selector"]["matchExpressions"].append(requirement)
    return narrowed


def _make_jq(key: str) -> str:
    return f'.metadata.annotations["{key}"] // .metadata.labels["{key}"]'


def _read(path: Path) -> list[Any]:
    return [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]


def _name(stage: Object) -> str:
    return str(stage["metadata"]["name"])
