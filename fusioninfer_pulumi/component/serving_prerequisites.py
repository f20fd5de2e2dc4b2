"""The ServingPrerequisites component: fails a preview if the cluster lacks prerequisites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.cluster_checks import list_prerequisites
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.component.inference_service import InferenceService, log_warnings
from fusioninfer_pulumi.component.pulumi_sdk import collected_services, get_kubernetes_provider
from fusioninfer_pulumi.findings import filter_errors, raise_errors
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.supported_products import (
    KUEUE,
    LEADER_WORKER_SET,
    VOLCANO,
    format_release,
)
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Pulumi type token. Changing it would replace every user's component.
TOKEN = "fusioninfer:index:ServingPrerequisites"  # noqa: S105  # a type token, not a password


@dataclass(frozen=True)
class ServingPrerequisitesArgs:
    """The services whose prerequisites are checked, and the cluster."""

    services: Sequence[InferenceServiceArgs | ServicePlan | InferenceService]
    """The services to run in the cluster: their specs; in Python also plans or components."""

    kubeconfig: pulumi.Input[str] | None = None
    """Path or content of the cluster's kubeconfig; may be an Output. Default:
    `kubernetes:kubeconfig` of the stack's config, else kubectl's. With an explicit provider, set
    this or `context`, because the provider's cluster is not known here."""

    context: str | None = None
    """Context of the kubeconfig. Default: `kubernetes:context` of the stack's config, else the
    current context."""

    lws_namespace: str = LEADER_WORKER_SET.namespace
    """Namespace of LeaderWorkerSet's manager; `lws-system` by default."""

    volcano_namespace: str = VOLCANO.namespace
    """Namespace of Volcano's scheduler; `volcano-system` by default."""

    kueue_namespace: str = KUEUE.namespace
    """Namespace of Kueue's manager; `kueue-system` by default."""


class ServingPrerequisites(pulumi.ComponentResource):
    """Checks a cluster for the prerequisites of services; the error says what to install.

    If the cluster cannot be read, it only logs a warning.
    """

    checked: pulumi.Output[bool]
    """Whether the cluster could be read."""

    releases: pulumi.Output[dict[str, str]]
    """Installed releases by product, for the products that the services need."""

    def __init__(
        self,
        name: str,
        args: ServingPrerequisitesArgs | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Check the cluster in previews and updates; it creates nothing.

        Args:
            name: Logical name.
            args: The arguments, or a mapping with their fields.
            opts: Resource options.

        Raises:
            InvalidServiceError: The cluster lacks prerequisites; the error has a finding for each.
                If `kubeconfig` is an Output, the outputs fail with this error instead.
        """
        self._args = ServingPrerequisitesArgs(**args) if isinstance(args, Mapping) else args
        super().__init__(TOKEN, name, None, opts)
        self._name = name
        plans = map(_get_plan, self._args.services)
        # The components of invalid services report their errors.
        self._plans = [plan for plan in plans if not filter_errors(plan.findings)]
        releases = self._find_and_check_cluster()
        self.checked = releases.apply(lambda releases_or_none: releases_or_none is not None)
        self.releases = releases.apply(lambda releases_or_none: releases_or_none or {})
        self.register_outputs({"checked": self.checked, "releases": self.releases})

    def _find_and_check_cluster(self) -> pulumi.Output[dict[str, str] | None]:
        kubeconfig: Any = self._args.kubeconfig
        settings = pulumi.Config("kubernetes")
        context = self._args.context or settings.get("context")
        if collected_services.get() is not None:
            return pulumi.Output.from_input(None)  # commands run the program without a cluster
        if isinstance(kubeconfig, pulumi.Output):
            releases = kubeconfig.apply(
                lambda text: self._check_cluster(text, context), run_with_unknowns=True
            )
            # Releases are not secret, although the kubeconfig is.
            return pulumi.Output.unsecret(releases)
        names_cluster = kubeconfig is not None or self._args.context is not None
        kubeconfig = kubeconfig or settings.get("kubeconfig")
        if not names_cluster and get_kubernetes_provider(self):
            self._warn("the provider's cluster is not known here; pass its kubeconfig or context")
            return pulumi.Output.from_input(None)
        return pulumi.Output.from_input(self._check_cluster(kubeconfig, context))

    def _check_cluster(self, kubeconfig: Any, context: str | None) -> dict[str, str] | None:
        """Check the cluster and return its releases; None if it cannot be read."""
        # Until the update, the value of an Output may be unknown.
        if kubeconfig is not None and not isinstance(kubeconfig, str):
            self._warn("the kubeconfig is not known before the update")
            return None
        namespaces = {
            LEADER_WORKER_SET.name: self._args.lws_namespace,
            VOLCANO.name: self._args.volcano_namespace,
            KUEUE.name: self._args.kueue_namespace,
        }
        try:
            api = KubernetesApi(kubeconfig, context)
            cluster = LiveCluster(api, self._plans, product_namespaces=namespaces)
            findings = list_prerequisites(cluster)
        except UnreadableError as exc:
            self._warn(str(exc))
            return None
        log_warnings(findings, self)
        raise_errors(findings, self._name)
        return {name: format_release(release) for name, release in sorted(cluster.releases.items())}

    def _warn(self, reason: str) -> None:
        pulumi.log.warn(f"the cluster's prerequisites were not checked: {reason}", self)


def _get_plan(service: InferenceServiceArgs | ServicePlan | InferenceService) -> ServicePlan:
    if isinstance(service, ServicePlan):
        return service
    return service.plan if isinstance(service, InferenceService) else plan_service(service)
