"""kwok stages, which simulate the life of a bound pod.

The label or annotation BEHAVIOUR selects a pod's stage; by default it becomes ready immediately.
DELAY is how long a slow pod takes (`5s`, by default three seconds).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from e2e.catalog import manifests
from e2e.harness.resources import Object

BEHAVIOUR = "e2e.fusioninfer.io/behaviour"
DELAY = "e2e.fusioninfer.io/delay"

SLOW = "slow"
FAILING = "failing"
"""Reaches phase Failed, like an evicted pod."""
CRASHING = "crashing"
"""Has a container in CrashLoopBackOff that restarted once."""
UNPULLABLE = "unpullable"
"""Is bound, but its image cannot be pulled."""

SLOW_MILLISECONDS = 3000
OWN_STAGES = Path(__file__).with_name("stages.yaml")


def write_stages(path: Path) -> Path:
    upstream = {_name(s): s for file in manifests("kwok", "stages") for s in _documents(file)}
    ready = upstream["pod-ready"]
    slow = copy.deepcopy(ready)
    slow["metadata"]["name"] = "pod-slow"
    slow["spec"]["delay"] = {
        "durationMilliseconds": SLOW_MILLISECONDS,
        "durationFrom": {"expressionFrom": _value_of(DELAY)},
    }
    delete = copy.deepcopy(upstream["pod-delete"])
    # kwok picks any of several matching stages, and `pod-ended` must precede with a finalizer.
    expressions = delete["spec"]["selector"]["matchExpressions"]
    expressions.append({"key": ".metadata.finalizers", "operator": "DoesNotExist"})
    additional = {_name(stage): stage for stage in _documents(OWN_STAGES)}
    stages = [
        upstream["node-initialize"],
        upstream["pod-complete"],
        delete,
        _when(ready, "NotIn", SLOW, FAILING, CRASHING, UNPULLABLE),
        _when(slow, "In", SLOW),
        additional["pod-ended"],
        _when(additional["pod-failing"], "In", FAILING),
        _when(additional["pod-crashing"], "In", CRASHING),
        _when(additional["pod-unpullable"], "In", UNPULLABLE),
    ]
    path.write_text(yaml.safe_dump_all(stages), encoding="utf-8")
    return path


def _when(stage: Object, operator: str, *behaviours: str) -> Object:
    requirement = {"key": _value_of(BEHAVIOUR), "operator": operator, "values": list(behaviours)}
    narrowed = copy.deepcopy(stage)
    narrowed["spec"]["selector"]["matchExpressions"].append(requirement)
    return narrowed


def _value_of(key: str) -> str:
    return f'.metadata.annotations["{key}"] // .metadata.labels["{key}"]'


def _documents(path: Path) -> list[Any]:
    return [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]


def _name(stage: Object) -> str:
    return str(stage["metadata"]["name"])
