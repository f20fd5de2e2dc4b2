"""Resource requests of pods, and the gang's minimum resources."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row
from samples import container, nodes, plan_of, prefill_decode, rendered, role, service, template

from fusioninfer_pulumi.kube.resource_requests import (
    count_accelerators,
    is_accelerator,
    pod_requests,
)


def resources(**amounts: Any) -> dict[str, Any]:
    return {"resources": {"limits": amounts}}


@each_row(
    "resource",
    ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi",
     "google.com/tpu", "nvidia.com/mig-1g.5gb"],
)  # fmt: skip
def test_accelerators_of_every_vendor_are_counted(resource: str) -> None:
    pod = template(container(args=["--model", "m", "-tp", "4"], **resources(**{resource: "4"})))
    plan = plan_of(service(role(replicas=3, template=pod)))
    assert is_accelerator(resource)
    assert (plan.roles[0].accelerators_per_pod, plan.total_accelerators) == (4, 12)
    assert {finding.rule for finding in plan.findings} <= {"shared-memory-missing"}


@each_row("resource", ["cpu", "memory", "rdma/hca", "example.com/fpga"])
def test_other_resources_are_no_accelerators(resource: str) -> None:
    assert count_accelerators(template(container(**resources(**{resource: "4"})))) == 0


def test_leader_and_workers_may_have_different_accelerators() -> None:
    wide = role(
        template=None,
        multinode=nodes(3),
        replicas=2,
        leaderTemplate=template(container(gpus=1)),
        workerTemplate=template(container(gpus=8)),
    )
    (planned,) = plan_of(service(wide)).roles
    assert planned.pod_accelerators == (1, 8, 8)
    assert (planned.accelerators_per_pod, planned.replica_accelerators) == (8, 17)
    assert planned.total_accelerators == 34


def amounts(pod: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(pod_requests(pod).items())}


@each_row(
    ("pod", "expected"),
    [
        # A missing request equals the limit; an explicit request takes precedence.
        (
            template(container(resources={"limits": {"cpu": "2", "memory": "1Gi"},
                                          "requests": {"cpu": "500m"}})),
            {"cpu": "0.500", "memory": "1073741824"},
        ),
        (
            template(container(**resources(cpu="1")), container("side", **resources(cpu="2"))),
            {"cpu": "3"},
        ),
        # Init containers run sequentially, before the other containers.
        (
            template(
                container(**resources(cpu="2")),
                initContainers=[
                    container("one", **resources(cpu="1", memory="1Mi")),
                    container("two", **resources(cpu="5")),
                ],
            ),
            {"cpu": "5", "memory": "1048576"},
        ),
        # A sidecar runs at the same time as the containers and the init containers after it.
        (
            template(
                container(**resources(cpu="2")),
                initContainers=[
                    container("early", **resources(cpu="3")),
                    container("side", restartPolicy="Always", **resources(cpu="1")),
                    container("late", **resources(cpu="3")),
                ],
            ),
            {"cpu": "4"},
        ),
        (
            template(container(**resources(cpu="2")), overhead={"cpu": "250m", "memory": "1Mi"},
                     runtimeClassName="kata"),
            {"cpu": "2.250", "memory": "1048576"},
        ),
        # Pod-level resources replace the sum of the containers for the resources that they list.
        (
            template(
                container(**resources(cpu="2", memory="1Mi")),
                resources={"requests": {"cpu": "8"}},
            ),
            {"cpu": "8", "memory": "1048576"},
        ),
        (template(container(resources={})), {}),
    ],
)  # fmt: skip
def test_pod_requests_equal_what_the_scheduler_counts(
    pod: dict[str, Any], expected: dict[str, str]
) -> None:
    result = amounts(pod)
    assert {name: float(amount) for name, amount in result.items()} == {
        name: float(amount) for name, amount in expected.items()
    }


def min_resources(manifest: dict[str, Any]) -> Any:
    return rendered(manifest)[0]["spec"].get("minResources")


@pytest.mark.parametrize(
    ("minima", "expected"),
    [
        # prefill 1 x 2 nodes, decode 2 x 4 nodes; 8 GPUs, 2 CPUs and 1.5Gi a pod.
        (None, {"cpu": "20", "memory": "15Gi", "nvidia.com/gpu": "80"}),
        ({"prefill": 1, "decode": 1}, {"cpu": "12", "memory": "9Gi", "nvidia.com/gpu": "48"}),
        ({"prefill": 1, "decode": 0}, {"cpu": "4", "memory": "3Gi", "nvidia.com/gpu": "16"}),
    ],
)
def test_gang_resources_cover_its_minimum(
    minima: dict[str, int] | None, expected: dict[str, str]
) -> None:
    limits = {"nvidia.com/gpu": 8, "cpu": "4", "memory": "1536Mi"}
    pod = template(container(resources={"limits": limits, "requests": {"cpu": "1500m"}}),
                   overhead={"cpu": "500m"}, runtimeClassName="kata")  # fmt: skip
    policy: dict[str, Any] = {"minResources": True}
    if minima is not None:
        policy["minRoleReplicas"] = minima
    manifest = prefill_decode(
        {"multinode": nodes(2), "template": pod},
        {"multinode": nodes(4), "template": pod},
        schedulingStrategy={"gangPolicy": policy},
    )
    assert min_resources(manifest) == expected


def test_gang_resources_count_leader_and_worker_templates() -> None:
    wide = role(
        template=None,
        multinode=nodes(3),
        leaderTemplate=template(container(**resources(cpu="250m"))),
        workerTemplate=template(container(gpus=8)),
    )
    manifest = service(wide, schedulingStrategy={"gangPolicy": {"minResources": True}})
    assert min_resources(manifest) == {"cpu": "250m", "nvidia.com/gpu": "16"}
