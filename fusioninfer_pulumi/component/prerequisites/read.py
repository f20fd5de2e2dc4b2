"""Reads of a cluster what the check needs, with the official client (the extra `cluster`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import yaml

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.check import NamedKind
from fusioninfer_pulumi.component.prerequisites.facts import (
    ClusterFacts,
    Definition,
    definition,
    release,
)
from fusioninfer_pulumi.component.prerequisites.table import Release
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError, items

__all__ = ["UnreadableError", "read_cluster"]

#: Group of the API in which the configuration of LeaderWorkerSet's manager is written.
_CONFIGURATION = "config.lws.x-k8s.io/"


def read_cluster(
    kubeconfig: str | None,
    context: str | None,
    definitions: Iterable[str],
    *,
    lws_namespace: str,
    volcano_namespace: str,
    named: Collection[tuple[NamedKind, str]] = (),
) -> ClusterFacts:
    """Reads definitions, the releases of programs, and LeaderWorkerSet's configuration.

    Args:
        kubeconfig: Path or text of a kubeconfig, None for the one that kubectl would use.
        context: Its context, None for the current one.
        definitions: Names of the CustomResourceDefinitions to look for.
        lws_namespace: Namespace of LeaderWorkerSet's manager.
        volcano_namespace: Namespace of Volcano's scheduler.
        named: Objects to look for by kind and name.

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
    apis = reader.apis()
    looked = {(kind.kind, name): reader.has(kind, name, apis) for kind, name in named}
    return ClusterFacts(
        definitions=known,
        releases=releases,
        lws_provider=provider,
        kubernetes=reader.kubernetes(),
        apis=apis,
        named={each: there for each, there in looked.items() if there is not None},
        unread=tuple(api.unread),
    )


class _Reader:
    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def definition(self, name: str) -> Definition | str | None:
        api = self._api.client.ApiextensionsV1Api(self._api.connection)
        read = api.read_custom_resource_definition
        found = self._api.get(f"definition {name}", read, name)
        return found if found is None or isinstance(found, str) else definition(found)

    def releases(self, namespace: str, program: str) -> list[Release]:
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
            for each in _configurations(text):
                gang = each.get("gangSchedulingManagement") or {}
                if isinstance(gang, Mapping):
                    found.add(str(gang.get("schedulerProvider") or ""))
        return max(found, default=None)

    def kubernetes(self) -> Release | None:
        """Release of the API server."""
        ask = self._api.client.VersionApi(self._api.connection).get_code
        found = self._api.get("version of Kubernetes", ask)
        return release(str(found.get("gitVersion"))) if isinstance(found, dict) else None

    def apis(self) -> dict[str, frozenset[str]] | None:
        """Versions of each API group that is served."""
        ask = self._api.client.ApisApi(self._api.connection).get_api_versions
        found = self._api.get("API groups", ask)
        if not isinstance(found, dict):
            return None
        return {
            group["name"]: frozenset(each["version"] for each in group["versions"])
            for group in found.get("groups") or ()
        }

    def has(
        self, kind: NamedKind, name: str, apis: Mapping[str, frozenset[str]] | None
    ) -> bool | None:
        """Whether an object is there, None where that cannot be told."""
        served = (apis or {}).get(kind.group, frozenset())
        version = next((each for each in kind.versions if each in served), None)
        if version is None:
            return None
        ask = self._api.client.CustomObjectsApi(self._api.connection).get_cluster_custom_object
        what = f"{kind.kind} {name}"
        found = self._api.get(what, ask, kind.group, version, kind.plural, name)
        return None if isinstance(found, str) else found is not None


def _configurations(text: str) -> list[Mapping[str, Any]]:
    """Configurations of LeaderWorkerSet's manager in a text, which may be anybody's."""
    if _CONFIGURATION not in text:
        return []
    try:
        documents = list(yaml.safe_load_all(text))
    # Prose, templates, tags of others: what cannot be read configures no manager.
    except Exception:  # noqa: BLE001
        return []
    return [
        each
        for each in documents
        if isinstance(each, Mapping) and str(each.get("apiVersion")).startswith(_CONFIGURATION)
    ]
