"""Running gangs whose nodes or size change.

Keep `docs/live-behavior.md` consistent with this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService, get_task

ROWS = Path(__file__).with_name("live_changes.yaml")


@dataclass(frozen=True)
class Case:
    """A service and its changes; `live_changes.yaml` describes the attributes."""

    steps: Sequence[tuple[str, Any, Mapping[str, int]]]
    minimum: Mapping[str, int] | None = None
    required: str = "Any"
    nodes: int = 10
    layouts: Sequence[str] = ("PerReplica",)
    started: Mapping[str, int] | None = None


CLAIMS: dict[str, list[Case]] = {
    claim: [Case(**row) for row in rows]
    for claim, rows in yaml.safe_load(ROWS.read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        pytest.param(case, layout, marks=pytest.mark.verifies(claim))
        for claim, cases in CLAIMS.items()
        for case in cases
        for layout in case.layouts
    ],
)
def test_changed_gang_binds_expected_pods(
    cluster: Cluster, namespace: str, case: Case, layout: str
) -> None:
    decode, minimum = 2, case.minimum

    def manifest() -> Object:
        manifest = prefill_decode(decode=decode, minimum=minimum, required=case.required)
        return {**manifest, "spec": {**manifest["spec"], "layout": layout}}

    def list_all_pods() -> dict[str, int]:
        return {"prefill-0": 2, **{f"decode-{index}": 4 for index in range(decode)}}

    service = LiveService(cluster, namespace, manifest())
    cluster.add_nodes(case.nodes)
    service.apply()
    bound = {**list_all_pods(), **(case.started or {})}
    service.wait_bound(bound)
    group = (service.pod_group() or {})["spec"]
    for action, argument, missing in case.steps:
        before, pods = bound, {task: service.read_uids(task) for task in bound}
        if action == "lose":
            lost = next(pod for pod in service.pods() if get_task(pod) == argument)
            cluster.remove_nodes([str(lost["spec"]["nodeName"])])
        elif action == "restart":
            # With layout PerReplica, leaders are in group 0 of their LeaderWorkerSet.
            leader = f"svc-{argument}{'-0' if layout == 'PerReplica' else ''}"
            cluster.delete("v1/Pod", leader, namespace, now=True)
        elif action == "nodes":
            cluster.add_nodes(argument)
        elif action == "lower":
            # This new LiveService never applied decode-1, so it does not delete it.
            LiveService(cluster, namespace, prefill_decode(decode=argument)).apply()
        elif action == "scale":
            decode = argument
            service.manifest = manifest()
            scale = {"spec": {"replicas": argument}}
            cluster.patch("LeaderWorkerSet", "svc-decode", scale, namespace, subresource="scale")
        else:
            decode = argument if action == "decode" else decode
            minimum = argument if action == "minimum" else minimum
            service.apply(manifest())
        bound = {**list_all_pods(), **missing}
        service.wait_bound(bound)
        for task in before.keys() & bound.keys():
            if before[task] and bound[task] and task != argument:
                assert service.read_uids(task) == pods[task], (action, task)
    if minimum is not None and minimum == case.minimum:
        assert (service.pod_group() or {})["spec"] == group
