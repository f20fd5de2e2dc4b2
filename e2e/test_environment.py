"""Variables that refer to those of LeaderWorkerSet, as its real webhook leaves them."""

from __future__ import annotations

import re

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object

NAMES = ("ENTRY_ADDRESS", "WORKER_INDEX", "GROUP_SIZE", "OWN")


def _expanded(container: Object) -> dict[str, str]:
    """The variables as the kubelet expands them: from those that stand before."""
    known: dict[str, str] = {}
    for each in container["env"]:
        value = str(each.get("value", ""))
        for name in re.findall(r"\$\(([A-Z_]+)\)", value):
            if name in known:
                value = value.replace(f"$({name})", known[name])
        known[each["name"]] = value
    return known


@pytest.mark.proves("environment: Kthena sets entry, index and size in every pod")
def test_kthena_variables_resolve(cluster: Cluster, namespace: str) -> None:
    roles = [
        inputs.role(name, "worker", nodes=nodes, gpus=0, environment="Kthena")
        for name, nodes in (("wide", 3), ("alone", 1))
    ]
    for role in roles:
        spec = role["template"]["spec"]
        own = {"name": "OWN", "value": "tcp://$(ENTRY_ADDRESS):29500"}
        spec["containers"][0]["env"] = [own]
        spec["initContainers"] = [{"name": "first", "image": "example.com/init:1"}]
    plan = inputs.plan_of(inputs.service("svc", *roles, gangPolicy={"mode": "Off"}))
    cluster.add_nodes(1)
    cluster.apply(inputs.with_namespace(inputs.objects_of(plan), namespace))
    cluster.wait(lambda: len(cluster.pods(namespace)) == 4, 60, lambda: cluster.pods(namespace))
    for lws_name, size in (("svc-wide-0", 3), ("svc-alone-0", 1)):
        entry = f"{lws_name}-0.{lws_name}.{namespace}"
        pods = cluster.pods(namespace, f"leaderworkerset.sigs.k8s.io/name={lws_name}")
        found = []
        for pod in pods:
            spec = pod["spec"]
            for container in (*spec["initContainers"], *spec["containers"]):
                known = _expanded(container)
                found.append(tuple(known.get(name, "") for name in NAMES))
        assert sorted(found) == sorted(
            (entry, str(index), str(size), own)
            for index in range(size)
            for own in ("", f"tcp://{entry}:29500")
        )
