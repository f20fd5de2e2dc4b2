"""Reads the live objects of one service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

Live = dict[str, dict[str, Any]]

_LWS = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
_PLURALS = {
    "PodGroup": "podgroups",
    "Gateway": "gateways",
    "HTTPRoute": "httproutes",
    "InferencePool": "inferencepools",
}


class LiveReader:
    """Reads a service again and again over one connection."""

    def __init__(self) -> None:
        """Connects with the first request."""
        self._api: KubernetesApi | None = None

    def lws(
        self, kubeconfig: str | None, context: str | None, namespace: str, service: str
    ) -> Live:
        """The LeaderWorkerSets of a service by name, in one request for each 500 of them.

        Raises UnreadableError where they cannot be read.
        """
        return self._read(kubeconfig, context, [(*_LWS[:2], namespace, _LWS[2], service)])

    def objects(
        self,
        kubeconfig: str | None,
        context: str | None,
        namespace: str,
        service: str,
        manifests: Sequence[Mapping[str, Any]],
    ) -> Live:
        """Objects of a service by name, one request for each kind of custom object in `manifests`.

        Raises UnreadableError where they cannot be read.
        """
        lists = []
        for api_version, kind in dict.fromkeys((m["apiVersion"], m["kind"]) for m in manifests):
            group, _, version = api_version.partition("/")
            lists.append((group, version, namespace, _PLURALS[kind], service))
        return self._read(kubeconfig, context, lists)

    def _read(
        self,
        kubeconfig: str | None,
        context: str | None,
        lists: Sequence[tuple[str, str, str, str, str]],
    ) -> Live:
        # Where this one fails, credentials may have expired: the next one connects anew.
        api, self._api = self._api or KubernetesApi(kubeconfig, context), None
        listing = api.client.CustomObjectsApi(api.connection).list_namespaced_custom_object
        found: Live = {}
        for group, version, namespace, plural, service in lists:
            selector = f"{labels.SERVICE}={service}"
            where = group, version, namespace, plural
            what = f"{plural} in {namespace}"
            for each in api.each(what, listing, *where, label_selector=selector):
                found[each["metadata"]["name"]] = each
        if api.unread:
            raise UnreadableError(", ".join(api.unread))
        self._api = api
        return found


def trimmed(live: Mapping[str, Any]) -> dict[str, Any]:
    """What of a live object is kept for the status: identity, version and status."""
    metadata = live.get("metadata") or {}
    kept = {key: metadata[key] for key in ("generation", "resourceVersion") if key in metadata}
    return {"metadata": kept, "status": live.get("status")}
