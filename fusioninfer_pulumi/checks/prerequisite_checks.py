"""Checks of a cluster's products, releases and features against the needs of services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fusioninfer_pulumi.checks.cluster_checks import (
    GANG_BACKEND_MISSING,
    KUEUE_FRAMEWORK,
    check_cluster,
    find_configurations,
    is_lws_managed_by_kueue,
)
from fusioninfer_pulumi.checks.server_dry_run import (
    API_SERVER_REJECTS,
    check_on_api_server,
    list_dry_run_objects,
)
from fusioninfer_pulumi.findings import Finding, Severity, error, errors, warning
from fusioninfer_pulumi.kube.client import KubernetesApi, Object
from fusioninfer_pulumi.kube.supported_products import (
    KUEUE,
    LEADER_WORKER_SET,
    NATIVE_GANGS,
    PRODUCTS,
    RELEASES_WITH_STALLED_STATEFULSETS,
    Kind,
    Product,
    Release,
    find_products,
    format_release,
    parse_product_release,
)
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import (
    CLUSTER_NOT_CHECKED,
    CRD_NOT_INSTALLED,
    FEATURE_GATE_OFF_BY_DEFAULT,
    LWS_GANG_PROVIDER_ON,
    RELEASE_NOT_SUPPORTED,
    RELEASE_UNKNOWN,
    STATEFULSET_KEEPS_BROKEN_PODS,
)

_BUNDLE = re.compile(r"(networking\.k8s\.io/bundle-version|operator\.prometheus\.io/version)$")
_DRY_RUN_SECONDS = 60.0


class Prerequisites:
    """Checks a cluster for the prerequisites of services.

    Attributes:
        releases: Installed releases by product; empty until `findings` is called.
    """

    def __init__(
        self,
        api: KubernetesApi,
        plans: Sequence[ServicePlan],
        namespaces: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the checks; `findings` reads the cluster.

        Args:
            api: The cluster.
            plans: Plans without errors.
            namespaces: Namespace of each product that does not run in its default one, by name.
        """
        self._api, self._plans = api, plans
        self._namespaces = namespaces or {}
        self.releases: dict[str, Release] = {}

    def findings(self) -> list[Finding]:
        """Return all missing prerequisites, and warnings about objects that were not read.

        Raises:
            UnreadableError: The cluster does not respond, or does not accept the credentials.
        """
        needs = find_product_needs(self._plans)
        findings = [
            finding
            for (api_name, kind), (product, services) in needs.items()
            for finding in self._check_product(product, api_name, kind, services)
        ]
        findings += [*self._check_managers(), *self._check_kubernetes()]
        kueue = self._get_namespace(KUEUE)
        for plan, dry_run_findings, cluster_findings in zip(
            self._plans,
            check_on_api_server(self._api, self._plans, seconds=_DRY_RUN_SECONDS),
            check_cluster(self._api, self._plans, kueue_namespace=kueue),
            strict=True,
        ):
            for finding in (*dry_run_findings, *cluster_findings):
                if not _is_reported_elsewhere(finding):
                    path = f"{finding.path}: " if finding.path else ""
                    message = f"{plan.service}: {path}{finding.message}"
                    findings.append(Finding(finding.rule, finding.severity, (), message))
        unread = (
            warning(CLUSTER_NOT_CHECKED, (), f"not checked: {reason}")
            for reason in self._api.unread
        )
        return list(dict.fromkeys([*unread, *findings]))

    def _get_namespace(self, product: Product) -> str:
        return self._namespaces.get(product.name, product.namespace)

    def _check_product(
        self, product: Product, api_name: str, kind: str, services: Sequence[str]
    ) -> Iterator[Finding]:
        if not self._api.versions:
            return  # the credentials may not read the versions
        need = f"{_format_need(services)} {product.requirement}"
        path = self._api.path(api_name, kind) if kind else None
        served = self._api.versions.get(product.group, ())
        if path is None and (kind or not served):
            missing = f"{kind} ({api_name})" if kind else api_name
            served_versions = f" (only {', '.join(served)})" if served else ""
            text = f"{product.name}: {missing} is not served{served_versions}; {need}"
            yield error(CRD_NOT_INSTALLED, (), text)
            return
        definition = None
        if path is not None and not product.program:
            name = f"{path.rpartition('/')[2]}.{product.group}"
            definition = self._api.get(
                "apiextensions.k8s.io", "CustomResourceDefinition", None, name
            )
        if product.min_release is None or not (definition is not None or product.program):
            return
        release = self._find_release(product, definition)
        if release is None:
            text = f"{product.name}: its release is unknown; {need}"
            yield warning(RELEASE_UNKNOWN, (), text)
            return
        self.releases[product.name] = release
        if release < product.min_release or release in product.broken:
            text = f"{product.name}: {format_release(release)} is installed; {need}"
            yield error(RELEASE_NOT_SUPPORTED, (), text)

    def _find_release(self, product: Product, definition: Object | None) -> Release | None:
        """Return the release in a CRD's annotations; of a program the lowest tag of its images."""
        if not product.program:
            annotations = ((definition or {}).get("metadata") or {}).get("annotations") or {}
            bundles = (text for key, text in annotations.items() if _BUNDLE.search(key))
            return parse_product_release(next(bundles, ""))
        images = (
            container["image"].partition("@")[0].rpartition("/")[2].partition(":")
            for workload in self._api.objects("apps/v1", "Deployment", self._get_namespace(product))
            or ()
            for container in workload["spec"]["template"]["spec"]["containers"]
        )
        tags = (parse_product_release(tag) for name, _, tag in images if name == product.program)
        return min((release for release in tags if release is not None), default=None)

    def _check_managers(self) -> Iterator[Finding]:
        """Yield findings about the configurations of LeaderWorkerSet's and Kueue's managers."""
        gangs = [
            plan.service
            for plan in self._plans
            if plan.gang is not None and not plan.gang.is_native
        ]
        if gangs:
            yield from self._check_gang_provider(gangs)
        queued = any(plan.shape.local_queue is not None for plan in self._plans)
        if (
            queued
            and KUEUE.group in self._api.versions
            and is_lws_managed_by_kueue(self._api, self._get_namespace(KUEUE)) is None
        ):
            yield warning(
                RELEASE_UNKNOWN,
                (),
                "Kueue: its configuration was not found in namespace "
                f"{self._get_namespace(KUEUE)}; integrations.frameworks must contain "
                f"{KUEUE_FRAMEWORK}",
            )

    def _check_gang_provider(self, services: Sequence[str]) -> Iterator[Finding]:
        namespace = self._get_namespace(LEADER_WORKER_SET)
        providers = [
            str(gang.get("schedulerProvider") or "")
            for configuration in find_configurations(self._api, namespace, "config.lws.x-k8s.io/")
            if isinstance(gang := configuration.get("gangSchedulingManagement") or {}, Mapping)
        ]
        if not providers:
            yield warning(
                RELEASE_UNKNOWN,
                (),
                f"LeaderWorkerSet: its configuration was not found in namespace {namespace}; "
                "gangSchedulingManagement must not be set in it",
            )
        elif max(providers):
            yield error(
                LWS_GANG_PROVIDER_ON,
                (),
                "LeaderWorkerSet: its own gang provider is on "
                f"(gangSchedulingManagement.schedulerProvider: {max(providers)}) and would "
                f"overwrite the PodGroup of every pod of {', '.join(services)}; remove "
                "gangSchedulingManagement from its configuration and restart its manager",
            )

    def _check_kubernetes(self) -> Iterator[Finding]:
        """Yield findings about features and bugs of the cluster's Kubernetes release."""
        native = [
            plan.service for plan in self._plans if plan.gang is not None and plan.gang.is_native
        ]
        if native and self._api.path(f"{NATIVE_GANGS.group}/v1beta1", NATIVE_GANGS.kind):
            yield warning(
                FEATURE_GATE_OFF_BY_DEFAULT,
                (),
                f"{NATIVE_GANGS.name}: {_format_need(native)} the feature gate "
                "GenericWorkload in the scheduler, too; the API does not show whether it is on, "
                "and without it pods start one by one",
            )
        release = parse_product_release(self._api.release)
        if release is None:
            return
        first, last = RELEASES_WITH_STALLED_STATEFULSETS
        if self._plans and first <= release <= last:
            yield warning(
                STATEFULSET_KEEPS_BROKEN_PODS,
                (),
                f"Kubernetes: {format_release(release)} does not replace broken pods "
                "(kubernetes#137409): an update does not repair a replica that never became ready "
                "unless its leader pod is deleted or the update's strategy is Recreate; use a "
                f"release before {format_release(first)} or after {format_release(last)}",
            )


def _is_reported_elsewhere(finding: Finding) -> bool:
    """Return whether the service's preview or a finding about a product reports the same."""
    by_product = (GANG_BACKEND_MISSING.id, CRD_NOT_INSTALLED.id)
    return (
        finding.rule == API_SERVER_REJECTS.id
        or finding.severity is Severity.INFO
        or (finding.rule in by_product and not errors([finding]))
    )


def find_product_needs(
    plans: Sequence[ServicePlan],
) -> Mapping[Kind, tuple[Product, Sequence[str]]]:
    """Return the kinds that services need, each with its product and the services' names.

    If services need several rows of `PRODUCTS` for one kind, the last of these rows is returned.
    """
    rows: dict[Kind, set[int]] = {}
    services: dict[Kind, dict[str, None]] = {}
    for plan in plans:
        for item in _list_objects(plan):
            for product, kind in find_products(item):
                rows.setdefault(kind, set()).add(PRODUCTS.index(product))
                services.setdefault(kind, {})[plan.service] = None
    return {kind: (PRODUCTS[max(rows[kind])], list(services[kind])) for kind in rows}


def _list_objects(plan: ServicePlan) -> Iterator[Object]:
    """Yield a plan's distinct objects and pods, and a kind without which its picker exits."""
    yield from (dry_run.manifest for dry_run in list_dry_run_objects(plan))
    if plan.picker is not None and plan.picker.epp.family.needs_inference_objective_crd:
        yield {
            "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
            "kind": "InferenceObjective",
        }


def _format_need(services: Sequence[str]) -> str:
    """Return subject and verb of a sentence: `a needs`, `a, b need`."""
    return f"{', '.join(services)} need{'s' if len(services) == 1 else ''}"
