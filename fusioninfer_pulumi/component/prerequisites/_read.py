"""Reads of a cluster what the check needs, with the official client."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.checks.gang_backends import (
    KUEUE_GROUP,
    KUEUE_NAMESPACE,
    frameworks_of,
    queues_for,
)
from fusioninfer_pulumi.checks.quotas import Quotas, read_quotas
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._table import NamedObject, Release
from fusioninfer_pulumi.kube.client import KubernetesApi, items
from fusioninfer_pulumi.kube.configurations import configurations
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Group of the API in which the configuration of LeaderWorkerSet's manager is written.
_CONFIGURATION = "config.lws.x-k8s.io/"
_BUNDLE = re.compile(r"(networking\.k8s\.io/bundle-version|operator\.prometheus\.io/version)$")
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")


@dataclass(frozen=True)
class Definition:
    """An installed CustomResourceDefinition: the schema of each served version, and its release."""

    schemas: Mapping[str, Mapping[str, Any]]
    release: Release | None = None

    def has(self, version: str, path: str) -> bool:
        """Whether objects of a version have a field; lists on the way are passed through."""
        schema: Any = self.schemas.get(version)
        for name in path.split("."):
            while isinstance(schema, Mapping) and "items" in schema:
                schema = schema["items"]
            if not isinstance(schema, Mapping):
                return False
            schema = (schema.get("properties") or {}).get(name)
        return schema is not None


@dataclass(frozen=True)
class ClusterFacts:
    """What could be read of a cluster.

    Attributes:
        definitions: CustomResourceDefinitions by name, None for one that is not installed; a name
            that is missing could not be read.
        releases: Releases of products by the tags of their images, as far as they are known.
        lws_provider: Gang provider of LeaderWorkerSet's own, empty when it is off, None when its
            configuration could not be found.
        kueue_frameworks: Kinds that Kueue manages, None when its configuration could not be found.
        queues: LocalQueues by namespace, where the backend of a gang is missing.
        named: Whether objects exist; one that is missing could not be read.
        quotas: ResourceQuotas, and those of Kueue.
    """

    definitions: Mapping[str, Definition | None] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)
    lws_provider: str | None = None
    kueue_frameworks: frozenset[str] | None = None
    queues: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kubernetes: Release | None = None
    apis: Mapping[str, frozenset[str]] | None = None
    named: Mapping[NamedObject, bool] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    unread: tuple[str, ...] = ()


def read_cluster(
    kubeconfig: str | None,
    context: str | None,
    definitions: Iterable[str],
    *,
    lws_namespace: str,
    volcano_namespace: str,
    kueue_namespace: str | None = None,
    named: Collection[NamedObject] = (),
    plans: Sequence[ServicePlan] = (),
) -> ClusterFacts:
    """Facts about definitions, releases, and LeaderWorkerSet's configuration.

    `definitions` are names of CustomResourceDefinitions, `named` objects to look for, `plans`
    those whose quotas, and perhaps LocalQueues, are read, `kueue_namespace` that of its manager,
    None where it is not needed. What one has no rights to read is in `unread`. Raises
    UnreadableError where nothing can be read.
    """
    api = KubernetesApi(kubeconfig, context)
    reader = _Reader(api)
    kinds = {name: reader.definition(name) for name in definitions}
    releases = {
        product: min(product_releases)
        for product, namespace in (
            ("LeaderWorkerSet", lws_namespace),
            ("Volcano", volcano_namespace),
            ("Kueue", kueue_namespace),
        )
        if namespace is not None
        and (product_releases := reader.releases(namespace, table.PROGRAMS[product]))
    }
    provider = reader.lws_provider(lws_namespace)
    frameworks = None if kueue_namespace is None else reader.kueue_frameworks(kueue_namespace)
    known = {name: kind for name, kind in kinds.items() if not isinstance(kind, str)}
    apis = reader.apis()
    objects = {item: reader.has(item, apis) for item in named}
    queues: Mapping[str, frozenset[str]] = {}
    if kinds.get(table.ALL_OR_NOTHING.definition, "") is None and KUEUE_GROUP in (apis or {}):
        # What a gang could use that lacks Volcano.
        queues = queues_for(api, plans)
        if frameworks is None:
            frameworks = reader.kueue_frameworks(KUEUE_NAMESPACE)
    return ClusterFacts(
        definitions=known,
        releases=releases,
        lws_provider=provider,
        kueue_frameworks=frameworks,
        queues=queues,
        kubernetes=reader.kubernetes(),
        apis=apis,
        quotas=read_quotas(api, plans),
        named={item: there for item, there in objects.items() if there is not None},
        unread=tuple(api.unread),
    )


class _Reader:
    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def definition(self, name: str) -> Definition | str | None:
        api = self._api.client.ApiextensionsV1Api(self._api.connection)
        read = api.read_custom_resource_definition
        payload = self._api.get(f"definition {name}", read, name)
        return payload if payload is None or isinstance(payload, str) else definition(payload)

    def releases(self, namespace: str, program: str) -> list[Release]:
        """Releases by the tags of the images of one program."""
        listing = self._api.client.AppsV1Api(self._api.connection).list_namespaced_deployment
        listed = self._api.get(f"Deployments in {namespace}", listing, namespace)
        images = [
            container["image"]
            for workload in items(listed)
            for container in workload["spec"]["template"]["spec"]["containers"]
        ]
        tags = [image.partition("@")[0].rpartition("/")[2].partition(":") for image in images]
        pod_releases = [release(tag) for name, _, tag in tags if name == program]
        return [release for release in pod_releases if release is not None]

    def lws_provider(self, namespace: str) -> str | None:
        """Gang provider in the configuration of LeaderWorkerSet's manager."""
        providers: set[str] = set()
        for configuration in configurations(self._config_maps(namespace), _CONFIGURATION):
            gang = configuration.get("gangSchedulingManagement") or {}
            if isinstance(gang, Mapping):
                providers.add(str(gang.get("schedulerProvider") or ""))
        return max(providers, default=None)

    def kueue_frameworks(self, namespace: str) -> frozenset[str] | None:
        """Kinds that the configuration of Kueue's manager has switched on."""
        return frameworks_of(self._config_maps(namespace))

    def _config_maps(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        listing = self._api.client.CoreV1Api(self._api.connection).list_namespaced_config_map
        return items(self._api.get(f"ConfigMaps in {namespace}", listing, namespace))

    def kubernetes(self) -> Release | None:
        """Release of the API server."""
        ask = self._api.client.VersionApi(self._api.connection).get_code
        version = self._api.get("version of Kubernetes", ask)
        return release(str(version.get("gitVersion"))) if isinstance(version, dict) else None

    def apis(self) -> dict[str, frozenset[str]] | None:
        """Versions of each API group that is served."""
        ask = self._api.client.ApisApi(self._api.connection).get_api_versions
        response = self._api.get("API groups", ask)
        if not isinstance(response, dict):
            return None
        return {
            group["name"]: frozenset(
                group_version["version"] for group_version in group["versions"]
            )
            for group in response.get("groups") or ()
        }

    def has(self, named: NamedObject, apis: Mapping[str, frozenset[str]] | None) -> bool | None:
        """Whether an object exists, None where that cannot be read."""
        kind = named.kind
        served = (apis or {}).get(kind.group, frozenset())
        version = next((known for known in kind.versions if known in served), None)
        if version is None:
            return None
        custom = self._api.client.CustomObjectsApi(self._api.connection)
        if named.namespace is None:
            ask, within = custom.get_cluster_custom_object, []
        else:
            ask, within = custom.get_namespaced_custom_object, [named.namespace]
        path = (kind.group, version, *within, kind.plural, named.name)
        response = self._api.get(f"{kind.kind} {named.name}", ask, *path)
        return None if isinstance(response, str) else response is not None


def definition(stored: Mapping[str, Any]) -> Definition:
    """What the check needs of a CustomResourceDefinition as the API server returns it."""
    annotations = stored["metadata"].get("annotations") or {}
    bundles = [release(text) for key, text in annotations.items() if _BUNDLE.search(key)]
    schemas = {
        version["name"]: (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for version in stored["spec"]["versions"]
        if version.get("served")
    }
    return Definition(schemas, next(iter(bundles), None))


def release(text: str) -> Release | None:
    """The release in a tag or an annotation, None for other words such as `latest`."""
    match = _RELEASE.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
