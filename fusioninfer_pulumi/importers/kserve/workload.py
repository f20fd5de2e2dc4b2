"""The main and the prefill workload as roles of ours."""

from __future__ import annotations

from dataclasses import replace

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import Path
from fusioninfer_pulumi.importers.kserve.container import with_engine
from fusioninfer_pulumi.importers.kserve.merging import Node, carry, made
from fusioninfer_pulumi.importers.kserve.offloading import carry_offloading
from fusioninfer_pulumi.importers.kserve.presets import MAIN, Preset
from fusioninfer_pulumi.importers.kserve.scaling import carry_scaling
from fusioninfer_pulumi.importers.kserve.stopping import stopped_by

#: The startup probe of KServe's presets: 60 times, every 10 seconds.
STARTUP = "10m"
_SIZES = ("tensor", "pipeline", "data", "dataLocal", "dataRPCPort", "expert")


def carry_workload(carrier: Carrier, workload: Node, name: str, component_type: str) -> None:
    """Carries a workload over as a role.

    Args:
        carrier: The service.
        workload: The block that describes it.
        name: Name of the role.
        component_type: What it does.
    """
    target = carrier.role(workload.at)
    carrier.imply((*target, "name"), name, workload.at)
    carrier.imply((*target, "componentType"), component_type, workload.at)
    replicas = workload.get("replicas")
    if replicas is not None and stopped_by(carrier.main) is not None:
        carrier.book.note(replicas.at, "is 0 while the service is stopped")
    elif replicas is not None:
        carry(carrier, (*target, "replicas"), replicas)
    pods = _parallelism(carrier, target, workload)
    _templates(carrier, target, workload, pods)
    _rollout(carrier, target, workload)
    carry_scaling(carrier, target, workload)
    carry_offloading(carrier, target, workload)


def _parallelism(carrier: Carrier, target: Path, workload: Node) -> int:
    """Carries the sizes over; returns the pods of one replica."""
    block, worker = workload.get("parallelism"), workload.get("worker")
    sizes = block.value if block is not None else {}
    data, local, pipeline = (sizes.get(key) for key in ("data", "dataLocal", "pipeline"))
    at = block.at if block is not None else workload.at
    refuse = carrier.book.refuse
    if pipeline is not None and (data is not None or local is not None):
        refuse(at, "cannot set both pipeline and data parallelism (data or dataLocal)")
    elif data is not None and local is None:
        refuse(at, "dataLocal must be set when data is set")
    elif local is not None and data is None:
        refuse(at, "data must be set when dataLocal is set")
    elif worker is not None and data is None and pipeline is None:
        refuse(
            worker.at,
            "when worker is specified, parallelism must be configured for either data "
            "parallelism or pipeline parallelism",
        )
    for key in _SIZES:
        size = block.get(key) if block is not None else None
        if size is not None:
            carry(carrier, (*target, "parallelism", key), size)
    pods = max(data // local, 1) if data and local else pipeline or 1
    if worker is None and pods > 1:
        carrier.book.refuse(
            at, f"a replica has {pods} pods, but there is no worker to say what the others run"
        )
    return int(pods)


def _templates(carrier: Carrier, target: Path, workload: Node, pods: int) -> None:
    book = carrier.book
    given, block = workload.get("template"), workload.get("parallelism")
    ranks = block is not None and block.get("data") is not None
    preset = Preset(
        several=pods > 1,
        ranks=ranks and pods > 1,
        leads=True,
        offloads=workload.get("kvCacheOffloading") is not None,
    )
    leader = with_engine(book, given if given is not None else made(workload.at, {}), preset)
    if given is None or not _starts_by_itself(given):
        carrier.imply((*target, "startup", "timeout"), STARTUP, workload.at)
    worker = workload.get("worker")
    if worker is not None and pods == 1:
        book.note(worker.at, "has no effect: a replica is one pod; left out")
        worker = None
    if worker is None:
        _template(carrier, (*target, "template"), leader, workload)
        return
    at = block.at if block is not None else workload.at
    carrier.derive((*target, "multinode", "nodeCount"), pods, at)
    launcher = "data-parallel" if ranks else "multiprocessing"
    carrier.derive((*target, "multinode", "launcher"), launcher, at)
    _template(carrier, (*target, "leaderTemplate"), leader, workload)
    follower = with_engine(book, worker, replace(preset, leads=False))
    _template(carrier, (*target, "workerTemplate"), follower, workload)


def _starts_by_itself(pod: Node) -> bool:
    """Whether a pod has a command or a startup probe of its own, in place of the presets'."""
    containers = pod.get("containers")
    return containers is not None and any(
        each.text("name") == MAIN and (each.get("command") or each.get("startupProbe"))
        for each in containers.items
    )


def _template(carrier: Carrier, target: Path, pod: Node, workload: Node) -> None:
    carry(carrier, (*target, "spec"), pod)
    for field in ("labels", "annotations"):
        held = workload.get(field)
        if held is not None:
            carry(carrier, (*target, "metadata", field), held)


def _rollout(carrier: Carrier, target: Path, workload: Node) -> None:
    strategy = workload.get("rolloutStrategy")
    if strategy is None:
        return
    for key in ("maxUnavailable", "maxSurge"):
        field = strategy.get(key)
        if field is None:
            continue
        if field.content == "0%":
            carrier.derive((*target, "rollout", key), 0, field.at)
        else:
            carry(carrier, (*target, "rollout", key), field)
    surge = strategy.get("maxSurge")
    if surge is not None and surge.content not in (0, "0%"):
        # Sets of one replica each have no surge.
        carrier.derive(("spec", "layout"), "PerRole", surge.at)
