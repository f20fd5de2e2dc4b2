"""The InferenceService component: validate, plan, render, register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from fusioninfer_pulumi import findings
from fusioninfer_pulumi.component.children import Children, newest
from fusioninfer_pulumi.component.namesakes import namesake_findings
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.component.resources import KubernetesObject, LeaderWorkerSet, PodGroup
from fusioninfer_pulumi.component.status import ServiceStatus, service_status
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity
from fusioninfer_pulumi.manifests import render
from fusioninfer_pulumi.plan import ServicePlan, plan_service
from fusioninfer_pulumi.plan.check import checked
from fusioninfer_pulumi.plan.entry import endpoint
from fusioninfer_pulumi.spec.document import examine_mapping
from fusioninfer_pulumi.spec.service import InferenceServiceArgs

#: Pulumi type token; a change of it would replace every user's service.
TOKEN = "fusioninfer:index:InferenceService"  # noqa: S105  # a type token is no password


class InferenceService(pulumi.ComponentResource):
    """A large language model served on Kubernetes.

    Creates a Volcano PodGroup (where the topology is a gang), one LeaderWorkerSet per replica of
    each role, patches that wait for them, and a Service in front of the pods that answer clients.
    """

    name: pulumi.Output[str]
    """Kubernetes name of the service."""

    namespace: pulumi.Output[str]
    """Namespace of its objects."""

    endpoint: pulumi.Output[str]
    """URL at which clients inside the cluster reach the model."""

    status: pulumi.Output[ServiceStatus]
    """Conditions and components, as of the last update or refresh."""

    plan: ServicePlan
    """The topology, plain and at once: pods, accelerators, gang, names, findings."""

    leader_worker_sets: dict[str, LeaderWorkerSet]
    """The replicas' LeaderWorkerSets by Kubernetes name."""

    pod_group: PodGroup | None
    """The gang's PodGroup, None without a gang."""

    service: KubernetesObject | None
    """The Service in front of the serving pods."""

    def __init__(
        self,
        name: str,
        args: InferenceServiceArgs | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Registers the service and its objects.

        Args:
            name: Logical name; also the Kubernetes name where `args` states none.
            args: The spec, or a mapping of its shape (snake_case or camelCase).
            opts: Resource options; provider, aliases, transforms, protect and depends_on reach
                the objects.

        Raises:
            InvalidServiceError: The service cannot work; one line per problem, before anything
                is registered.
        """
        self.plan = _planned(name, args)
        manifests = render(self.plan)
        _refuse(namesake_findings(self.plan, opts), name)
        super().__init__(TOKEN, name, None, opts)
        collected = collect_plans.get()
        if collected is not None:
            collected.append(self.plan)
        else:
            self._log_findings()
        children = Children(self, name, self.plan, manifests, opts)
        self.leader_worker_sets = children.sets
        self.pod_group = children.pod_group
        self.service = children.service
        self.name = pulumi.Output.from_input(self.plan.service)
        self.namespace = pulumi.Output.from_input(self.plan.namespace)
        host, namespace, port = endpoint(self.plan)
        self.endpoint = pulumi.Output.format("http://{0}.{1}.svc:{2}", host, namespace, port)
        self.status = self._status(children)
        self.register_outputs(
            {
                "name": self.name,
                "namespace": self.namespace,
                "endpoint": self.endpoint,
                "status": self.status,
            }
        )

    def _log_findings(self) -> None:
        for finding in self.plan.findings:
            if finding.severity is Severity.WARNING:
                pulumi.log.warn(f"{finding.path}: {finding.message}", self)

    def _status(self, children: Children) -> pulumi.Output[ServiceStatus]:
        plan = self.plan

        def computed(seen: Mapping[str, Any]) -> ServiceStatus:
            waited = seen["waited"]
            live = {name: newest(look, waited.get(name)) for name, look in seen["sets"].items()}
            return service_status(plan, live, newest(seen["group"], seen["scheduled"]))

        return children.live().apply(computed)


def _planned(name: str, args: InferenceServiceArgs | Mapping[str, Any]) -> ServicePlan:
    if isinstance(args, InferenceServiceArgs):
        plan: ServicePlan | None
        plan = plan_service(args, name)
        found = plan.findings
    elif isinstance(args, Mapping):
        plan, found = checked(examine_mapping(args, name), name)
    else:
        raise TypeError(
            f"{name}: args must be InferenceServiceArgs or a mapping of its shape, "
            f"got {type(args).__name__}"
        )
    _refuse(found, name)
    assert plan is not None, "a document without errors has a plan"
    return plan


def _refuse(found: Iterable[Finding], title: str) -> None:
    refused = findings.errors(found)
    if refused:
        raise InvalidServiceError(refused, title)
