"""Reads of a cluster what the check needs, with the official client (the extra `cluster`)."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.facts import (
    ClusterFacts,
    Definition,
    definition,
    release,
)

_SECONDS = (5, 15)  # to connect, to answer: a preview must not hang on a cluster that is away


class UnreadableError(Exception):
    """The cluster cannot be read; the text says why."""


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
    reader = _Reader(kubeconfig, context)
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
    return ClusterFacts(known, releases, provider, tuple(reader.unread))


class _Reader:
    """One connection, and what it was not allowed to read."""

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        try:
            # By name, so that neither importing this package nor type checking needs the extra.
            self._client: Any = importlib.import_module("kubernetes.client")
            self._config: Any = importlib.import_module("kubernetes.config")
        except ImportError:
            raise UnreadableError(
                "the Kubernetes client is not installed (pip install 'fusioninfer-pulumi[cluster]')"
            ) from None
        self._api = self._connected(kubeconfig, context)
        self.unread: dict[str, None] = {}

    def _connected(self, kubeconfig: str | None, context: str | None) -> Any:
        configuration = self._client.Configuration()
        configuration.retries = False
        into = {"client_configuration": configuration}
        try:
            if kubeconfig is None and context is None:
                # The kubeconfig that kubectl would use, else the account of this pod.
                self._config.load_config(**into)
            elif kubeconfig is None or "\n" not in kubeconfig.strip():
                path = None if kubeconfig is None else str(Path(kubeconfig).expanduser())
                self._config.load_kube_config(path, context, persist_config=False, **into)
            else:
                content = yaml.safe_load(kubeconfig)
                self._config.load_kube_config_from_dict(
                    content, context, persist_config=False, **into
                )
        # A kubeconfig may be wrong in many ways, and its credential programs may fail in any.
        except Exception as problem:  # noqa: BLE001
            # Texts of parsers quote the line that they could not read: it may be a credential.
            told = type(problem).__name__ if isinstance(problem, yaml.YAMLError) else str(problem)
            raise UnreadableError(f"no usable kubeconfig: {_line(told)}") from None
        return self._client.ApiClient(configuration)

    def definition(self, name: str) -> Definition | str | None:
        read = self._client.ApiextensionsV1Api(self._api).read_custom_resource_definition
        found = self._get(f"definition {name}", read, name)
        return found if found is None or isinstance(found, str) else definition(found)

    def releases(self, namespace: str, program: str) -> list[table.Release]:
        """Releases by the tags of the images of one program."""
        listing = self._client.AppsV1Api(self._api).list_namespaced_deployment
        listed = self._get(f"Deployments in {namespace}", listing, namespace)
        images = [
            container["image"]
            for each in _items(listed)
            for container in each["spec"]["template"]["spec"]["containers"]
        ]
        tags = [image.partition("@")[0].rpartition("/")[2].partition(":") for image in images]
        found = [release(tag) for name, _, tag in tags if name == program]
        return [each for each in found if each is not None]

    def lws_provider(self, namespace: str) -> str | None:
        """Gang provider in the configuration of LeaderWorkerSet's manager."""
        listing = self._client.CoreV1Api(self._api).list_namespaced_config_map
        listed = self._get(f"ConfigMaps in {namespace}", listing, namespace)
        found: set[str] = set()
        for text in (text for each in _items(listed) for text in (each.get("data") or {}).values()):
            if "config.lws.x-k8s.io" in text:
                gang = (yaml.safe_load(text) or {}).get("gangSchedulingManagement") or {}
                found.add(str(gang.get("schedulerProvider") or ""))
        return max(found, default=None)

    def _get(self, what: str, call: Callable[..., Any], name: str) -> Any:
        """The answer as JSON, None where there is nothing, words where it is refused."""
        http: Any = importlib.import_module("urllib3.exceptions")
        try:
            answer = call(name, _preload_content=False, _request_timeout=_SECONDS)
            return json.loads(answer.data)
        except self._client.ApiException as refused:
            if refused.status == 404:
                return None
            if refused.status == 401:
                raise UnreadableError("the cluster does not accept the credentials") from None
            self.unread[f"{what}: {refused.status} {refused.reason}"] = None
            return "refused"
        except http.HTTPError as problem:
            raise UnreadableError(f"the cluster does not answer: {_line(str(problem))}") from None


def _items(listed: Any) -> list[Any]:
    return listed.get("items") or [] if isinstance(listed, dict) else []


def _line(text: str) -> str:
    return " ".join(text.split())
