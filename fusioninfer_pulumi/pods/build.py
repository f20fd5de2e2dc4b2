"""Builds the pods of a role: the list of everything that is done to the user's templates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from fusioninfer_pulumi.engines.engine import EngineCommand, Offload
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube.outputs import with_placeholders
from fusioninfer_pulumi.pods.device_claims import device_claims
from fusioninfer_pulumi.pods.environment import environment
from fusioninfer_pulumi.pods.health import graceful_shutdown, health
from fusioninfer_pulumi.pods.kv_offloading import kv_offloading
from fusioninfer_pulumi.pods.kv_transfer import kv_addresses, kv_transfer
from fusioninfer_pulumi.pods.launch import (
    launch,
    rank_ports,
    ray_port,
    read_engine,
    split,
    worker_trim,
)
from fusioninfer_pulumi.pods.model import model
from fusioninfer_pulumi.pods.parallelism import parallelism
from fusioninfer_pulumi.pods.parts import KvTransferPlan
from fusioninfer_pulumi.pods.pod import Context, Pass, Pod
from fusioninfer_pulumi.pods.rdma import rdma
from fusioninfer_pulumi.pods.scheduling import pod_labels, scheduling, spread
from fusioninfer_pulumi.pods.sidecar import sidecar
from fusioninfer_pulumi.pods.tracing import tracing
from fusioninfer_pulumi.schemas.check import normal
from fusioninfer_pulumi.schemas.kind import POD_TEMPLATE

_REVISION_LENGTH = 10

#: What is done to the user's templates, in this order.
PASSES: tuple[Pass, ...] = (
    # What the user could have written into each of the templates.
    model,
    device_claims,
    rdma,
    parallelism,  # workers without a command take their leader's, with the model in it
    kv_offloading,  # the sizes say how many engines share a pod's memory
    split,
    # The command lines. Nothing reads them once a launcher has put them into a script.
    kv_transfer,
    tracing,
    read_engine,
    launch,
    # What stands beside the command lines.
    kv_addresses,
    ray_port,
    rank_ports,
    health,
    worker_trim,
    graceful_shutdown,
    environment,
    scheduling,
    pod_labels,
    sidecar,  # does not get the variables of `environment`
    spread,
)


@dataclass(frozen=True)
class RolePods:
    """The finished pods of a role, which all of its replicas share.

    Attributes:
        command: The engine's command line, before a launcher hid it in a script.
        engine_port: Port that the engine listens on, behind a sidecar where there is one.
        rank_ports: Ports that it serves on from there, and the pod from `port`: one for each rank
            that has its own.
        revision: Hash of what the pods are made of, so that neither the service's own metadata nor
            a replica count changes it. An Output, whose value is not known yet, counts as a
            placeholder.
    """

    leader: Pod
    worker: Pod | None
    command: EngineCommand
    port: int
    engine_port: int
    rank_ports: int
    kv: KvTransferPlan | None
    traced: bool
    offload: Offload | None
    revision: str

    @property
    def each(self) -> list[Pod]:
        """The leader, then the worker where there is one."""
        return [pod for pod in (self.leader, self.worker) if pod is not None]

    @property
    def written(self) -> list[Pod]:
        """The first pod of each template that the user wrote."""
        return [pod for pod in self.each if pod.leads or pod.path != self.leader.path]


def build_pods(ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Builds the pods of a role once, by all passes."""
    pods, findings = ctx.written, []
    for add_feature in PASSES:
        pods, problems = add_feature(pods, ctx)
        findings += problems
    for pod in pods.each():
        pods = pods.put(replace(pod, template=normal(pod.template, POD_TEMPLATE)))
    templates = [pods.leader.template, None if pods.worker is None else pods.worker.template]
    text = json.dumps(with_placeholders(templates), sort_keys=True, ensure_ascii=False)
    revision = hashlib.sha256(text.encode()).hexdigest()[:_REVISION_LENGTH]
    finished = RolePods(
        leader=pods.leader,
        worker=pods.worker,
        command=pods.engine_command,
        port=pods.port,
        engine_port=pods.engine_port,
        rank_ports=pods.rank_ports,
        kv=pods.kv,
        traced=pods.traced,
        offload=pods.offload,
        revision=revision,
    )
    return finished, findings
