"""The ServingPrerequisites component: fails a preview for what the cluster lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.component.inference_service import (
    InferenceService,
    log_warnings,
    raise_errors,
)
from fusioninfer_pulumi.component.prerequisites._check import check, named_objects, needs
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, read_cluster
from fusioninfer_pulumi.component.prerequisites._table import release_text
from fusioninfer_pulumi.component.sdk import collect_services
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Pulumi type token; a change of it would replace every user's component.
TOKEN = "fusioninfer:index:ServingPrerequisites"  # noqa: S105  # a type token is no password


@dataclass(frozen=True)
class ServingPrerequisitesArgs:
    """What is checked, and how the cluster is read.

    Attributes:
        services: The services that the cluster shall run: their specs, plans or components.
        kubeconfig: Path or text of the cluster's kubeconfig; may be an Output. By default that
            of the stack's config (`kubernetes:kubeconfig`), else the one that kubectl would use.
            With an explicit provider and no context there is no default, because its cluster may
            be another one.
        context: Its context, by default `kubernetes:context` of the stack's config, else the
            current one.
        lws_namespace: Namespace of LeaderWorkerSet's manager.
        volcano_namespace: Namespace of Volcano's scheduler.
        kueue_namespace: Namespace of Kueue's manager.
    """

    services: Sequence[InferenceServiceArgs | ServicePlan | InferenceService]
    kubeconfig: pulumi.Input[str] | None = None
    context: str | None = None
    lws_namespace: str = "lws-system"
    volcano_namespace: str = "volcano-system"
    kueue_namespace: str = "kueue-system"


class ServingPrerequisites(pulumi.ComponentResource):
    """Checks that a cluster has what services need, and fails with what to install.

    Where the cluster cannot be read, it says that it did not check, and nothing fails.
    """

    checked: pulumi.Output[bool]
    """Whether the cluster could be read."""

    releases: pulumi.Output[dict[str, str]]
    """Releases that were found, by product."""

    def __init__(
        self,
        name: str,
        args: ServingPrerequisitesArgs | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Reads the cluster, at preview and at update; creates nothing.

        Args:
            name: Logical name.
            args: What is checked, or a mapping of its shape.
            opts: Resource options.

        Raises:
            InvalidServiceError: The cluster lacks something; one line per problem.
        """
        self._args = ServingPrerequisitesArgs(**args) if isinstance(args, Mapping) else args
        super().__init__(TOKEN, name, None, opts)
        self._name = name
        self._plans = [_plan(service) for service in self._args.services]
        facts = self._read_facts()
        self.checked = facts.apply(lambda known: known is not None)
        self.releases = facts.apply(_releases)
        self.register_outputs({"checked": self.checked, "releases": self.releases})

    def _read_facts(self) -> pulumi.Output[ClusterFacts | None]:
        kubeconfig: Any = self._args.kubeconfig
        settings = pulumi.Config("kubernetes")
        context = self._args.context or settings.get("context")
        if collect_services.get() is not None:
            return _nothing()  # the command line reads no cluster
        if isinstance(kubeconfig, pulumi.Output):
            kubeconfig_output = kubeconfig.apply(
                lambda text: self._checked_facts(text, context), run_with_unknowns=True
            )
            # The facts contain nothing of the kubeconfig, so they are no secret.
            return pulumi.Output.unsecret(kubeconfig_output)
        named = kubeconfig is not None or self._args.context is not None
        kubeconfig = kubeconfig or settings.get("kubeconfig")
        if not named and self.get_provider("kubernetes:core/v1:Service"):
            self._warn("the provider's cluster is not known here; pass its kubeconfig or context")
            return _nothing()
        return pulumi.Output.from_input(self._checked_facts(kubeconfig, context))

    def _checked_facts(self, kubeconfig: Any, context: str | None) -> ClusterFacts | None:
        """Facts of the cluster after the check; None where it cannot be read."""
        if kubeconfig is not None and not isinstance(kubeconfig, str):
            self._warn("its kubeconfig is not known before the update")
            return None
        try:
            facts = read_cluster(
                kubeconfig,
                context,
                [row.definition for row in needs(self._plans)],
                lws_namespace=self._args.lws_namespace,
                volcano_namespace=self._args.volcano_namespace,
                kueue_namespace=self._kueue_namespace(),
                named=list(named_objects(self._plans)),
                plans=self._plans,
            )
        except UnreadableError as problem:
            self._warn(str(problem))
            return None
        problems = check(self._plans, facts)
        log_warnings(problems, self)
        raise_errors(problems, self._name)
        return facts

    def _kueue_namespace(self) -> str | None:
        """Namespace of Kueue's manager, None where no service waits in its queues."""
        queued = any(plan.local_queue is not None for plan in self._plans)
        return self._args.kueue_namespace if queued else None

    def _warn(self, reason: str) -> None:
        pulumi.log.warn(f"the cluster's prerequisites were not checked: {reason}", self)


def _plan(service: InferenceServiceArgs | ServicePlan | InferenceService) -> ServicePlan:
    if isinstance(service, ServicePlan):
        return service
    return service.plan if isinstance(service, InferenceService) else plan_service(service)


def _nothing() -> pulumi.Output[ClusterFacts | None]:
    none: ClusterFacts | None = None
    return pulumi.Output.from_input(none)


def _releases(facts: ClusterFacts | None) -> dict[str, str]:
    if facts is None:
        return {}
    by_product = dict(facts.releases)
    for name, definition in facts.definitions.items():
        if definition is not None and definition.release is not None:
            by_product[name] = definition.release
    return {name: release_text(release) for name, release in sorted(by_product.items())}
