"""Reads of a cluster what the check needs, with the official client (the extra `cluster`)."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.facts import (
    ClusterFacts,
    Definition,
    definition,
    release,
)
from fusioninfer_pulumi.kubernetes_api import KubernetesApi, UnreadableError, items

__all__ = ["UnreadableError", "read_cluster"]


def read_cluster(
    kubeconfig: str | None,
    context: str | None,
    definitions: Iterable[str],
    *,
    lws_namespace: str,
    volcano_namespace: str,
) -> ClusterFacts:
    """Reads definitions, the releases of programs, and LeaderWorkerSet's configuration.

    Args:
        kubeconfig: Path or text of a kubeconfig, None for the one that kubectl would use.
        context: Its context, None for the current one.
        definitions: Names of the CustomResourceDefinitions to look for.
        lws_namespace: Namespace of LeaderWorkerSet's manager.
        volcano_namespace: Namespace of Volcano's scheduler.

    Returns:
        What could be read; what one has no rights to read is named there.

    Raises:
        UnreadableError: Nothing can be read.
    """
    api = KubernetesApi(kubeconfig, context)
    reader = _Reader(api)
    kinds = {name: reader.definition(name) for name in definitions}
    releases = {
        product: min(found)
        for product, namespace in (
            ("LeaderWorkerSet", lws_namespace),
            ("Volcano", volcano_namespace),
        )
        if (found := reader.releases(namespace, table.PROGRAMS[product]))
    }
    provider = reader.lws_provider(lws_namespace)
    known = {name: kind for name, kind in kinds.items() if not isinstance(kind, str)}
    return ClusterFacts(known, releases, provider, tuple(api.unread))


class _Reader:
    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def definition(self, name: str) -> Definition | str | None:
        api = self._api.client.ApiextensionsV1Api(self._api.connection)
        read = api.read_custom_resource_definition
        found = self._api.get(f"definition {name}", read, name)
        return found if found is None or isinstance(found, str) else definition(found)

    def releases(self, namespace: str, program: str) -> list[table.Release]:
        """Releases by the tags of the images of one program."""
        listing = self._api.client.AppsV1Api(self._api.connection).list_namespaced_deployment
        listed = self._api.get(f"Deployments in {namespace}", listing, namespace)
        images = [
            container["image"]
            for each in items(listed)
            for container in each["spec"]["template"]["spec"]["containers"]
        ]
        tags = [image.partition("@")[0].rpartition("/")[2].partition(":") for image in images]
        found = [release(tag) for name, _, tag in tags if name == program]
        return [each for each in found if each is not None]

    def lws_provider(self, namespace: str) -> str | None:
        """Gang provider in the configuration of LeaderWorkerSet's manager."""
        listing = self._api.client.CoreV1Api(self._api.connection).list_namespaced_config_map
        listed = self._api.get(f"ConfigMaps in {namespace}", listing, namespace)
        found: set[str] = set()
        for text in (text for each in items(listed) for text in (each.get("data") or {}).values()):
            if "config.lws.x-k8s.io" in text:
                gang = (yaml.safe_load(text) or {}).get("gangSchedulingManagement") or {}
                found.add(str(gang.get("schedulerProvider") or ""))
        return max(found, default=None)
