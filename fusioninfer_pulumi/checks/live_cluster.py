"""State that the checks of a live cluster share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import yaml

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.supported_products import KUEUE, Product, Release
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Namespace in which services are checked whose own namespace is unknown or does not exist yet.
FALLBACK_NAMESPACE = "default"
#: Name of LeaderWorkerSets in the configuration of Kueue's manager.
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"

#: Each finding with the plan of its service, or None if the finding is about the cluster.
ClusterFindings = Iterator[tuple[ServicePlan | None, Finding]]


class LiveCluster:
    """A live cluster, and the services that are checked against it.

    Attributes:
        api: The cluster.
        plans: Plans without errors; the assumed namespace replaces namespaces that are Outputs.
        plans_with_namespace: The plans whose namespace is not just the fallback `default`.
        registered_objects: Additional objects that the same program creates.
        releases: Installed releases, keyed by product name; set by `check_releases`.
    """

    def __init__(
        self,
        api: KubernetesApi,
        plans: Sequence[ServicePlan],
        *,
        namespace: str | None = None,
        registered_objects: Iterable[Mapping[str, Any]] = (),
        product_namespaces: Mapping[str, str] | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Prepare the checks without reading the cluster.

        Args:
            api: The cluster.
            plans: Plans without errors.
            namespace: Namespace to assume for services whose namespace is an Output. If None, they
                are checked in `default`, without quotas.
            registered_objects: Additional objects that the same program creates.
            product_namespaces: Namespaces of products that do not run in their default namespace,
                keyed by product name.
            timeout_seconds: Timeout of all checks together; dry runs get at least one second.
        """
        self.api = api
        self.plans = [
            plan.in_namespace(namespace or FALLBACK_NAMESPACE)
            if is_output(plan.namespace)
            else plan
            for plan in plans
        ]
        self.plans_with_namespace = [
            plan
            for plan, original in zip(self.plans, plans, strict=True)
            if namespace is not None or not is_output(original.namespace)
        ]
        self.registered_objects = registered_objects
        self.releases: dict[str, Release] = {}
        self._product_namespaces = product_namespaces or {}
        self._deadline = time.monotonic() + timeout_seconds

    @property
    def remaining_seconds(self) -> float:
        """Time until the timeout, at least one second."""
        return max(1.0, self._deadline - time.monotonic())

    def get_namespace(self, product: Product) -> str:
        """Return the namespace in which a product's manager runs."""
        return self._product_namespaces.get(product.name, product.namespace)

    @cached_property
    def is_lws_managed_by_kueue(self) -> bool | None:
        """Whether Kueue's manager is configured for LeaderWorkerSets, or None if unknown."""
        configurations = self.find_configurations(KUEUE, "config.kueue.x-k8s.io/")
        sections = (configuration.get("integrations") or {} for configuration in configurations)
        frameworks = [
            section.get("frameworks") or () for section in sections if isinstance(section, Mapping)
        ]
        return any(KUEUE_FRAMEWORK in names for names in frameworks) if frameworks else None

    def find_configurations(self, product: Product, group: str) -> Iterator[Mapping[str, Any]]:
        """Yield the documents of an API group in the ConfigMaps of a product's manager."""
        namespace = self.get_namespace(product)
        for config_map in self.api.list_objects("v1", "ConfigMap", namespace) or ():
            for text in (config_map.get("data") or {}).values():
                if group in text:
                    # ConfigMaps may also contain text that is not YAML, such as templates.
                    with contextlib.suppress(Exception):
                        for document in list(yaml.safe_load_all(text)):
                            is_mapping = isinstance(document, Mapping)
                            if is_mapping and str(document.get("apiVersion")).startswith(group):
                                yield document
