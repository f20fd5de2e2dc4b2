"""A small Kubernetes client for any kind, with objects as plain dicts.

It replaces the official client because the tests need exact control of requests (strict field
validation, server-side apply, impersonation) and no typed models.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from e2e.harness.pods import is_ready
from e2e.harness.resources import Discovery, Object, Resource

Objects = list[Object]
T = TypeVar("T")

STRICT = {"fieldManager": "fusioninfer-e2e", "fieldValidation": "Strict"}
DRY_RUN = {"dryRun": "All"}
POLL_SECONDS = 0.1

PATCH_TYPES = {
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """An error response of the API server, with its HTTP status, reason and message."""

    def __init__(self, status: int, body: Object) -> None:
        self.status = status
        self.reason: str = body.get("reason", "")
        self.body = body
        super().__init__(f"{status} {self.reason}: {body.get('message', '')}")


class Client:
    """A client of one API server for one user.

    Kinds are `apiVersion/Kind` (`apps/v1/StatefulSet`, `v1/Pod`), or only `Kind` if one group has
    it. The core group takes precedence over other groups (Event).
    """

    def __init__(
        self, server: str, authority: Path, token: str, *, impersonate: str | None = None
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        if impersonate is not None:
            headers["Impersonate-User"] = impersonate
        self.server = server
        self._pool = urllib3.PoolManager(
            ca_certs=str(authority),
            headers=headers,
            maxsize=16,  # Tests create nodes and services from several threads.
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=60),
        )
        self._discovery = Discovery(
            lambda path, accept: self.request("GET", path, headers={"Accept": accept})
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        """Send a request and return the JSON response.

        Raises:
            ApiError: If the status is 400 or higher.
        """
        sent = {**self._pool.headers, "Content-Type": "application/json", **(headers or {})}
        url = f"{self.server}{path}"
        if params:
            url += "?" + "&".join(f"{key}={quote(value)}" for key, value in params.items())
        # Server-side apply parses YAML, which does not combine escaped surrogate pairs.
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        response = self._pool.request(method, url, body=payload, headers=sent)
        if response.status >= 400:
            try:
                error_body = json.loads(response.data)
            except ValueError:
                error_body = {"message": response.data.decode(errors="replace")}
            raise ApiError(response.status, error_body)
        decoded: Object = json.loads(response.data)
        return decoded

    def text(self, path: str) -> str:
        return self._pool.request("GET", f"{self.server}{path}").data.decode()

    def resource(self, kind: str) -> Resource:
        return self._discovery.find(kind)

    def apply(
        self,
        manifests: Iterable[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> Objects:
        """Apply objects in order, server-side; return them as stored by the server.

        Args:
            manifests: The objects; unknown fields are rejected.
            namespace: Namespace of namespaced objects that do not set one.
            dry_run: Run validation, webhooks and defaulting, but store nothing.
        """
        return [
            self.request(
                "PATCH",
                self._get_path(manifest, namespace, named=True),
                manifest,
                params={**STRICT, "force": "true", **(DRY_RUN if dry_run else {})},
                headers={"Content-Type": PATCH_TYPES["apply"]},
            )
            for manifest in manifests
        ]

    def create(
        self, manifest: Mapping[str, Any], *, namespace: str | None = None, dry_run: bool = False
    ) -> Object:
        """Create an object, also one with `generateName`."""
        path = self._get_path(manifest, namespace, named=False)
        params = {**STRICT, **(DRY_RUN if dry_run else {})}
        return self.request("POST", path, manifest, params=params)

    def _get_path(self, manifest: Mapping[str, Any], namespace: str | None, *, named: bool) -> str:
        resource = self.resource(f"{manifest['apiVersion']}/{manifest['kind']}")
        meta = manifest["metadata"]
        name = meta["name"] if named else None
        object_namespace = meta.get("namespace", namespace)
        if resource.namespaced and object_namespace is None:
            raise ValueError(f"{resource.kind} {meta.get('name')} needs a namespace")
        return resource.path(name, object_namespace)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        return self.request("GET", self.resource(kind).path(name, namespace))

    def exists(self, kind: str, name: str, namespace: str | None = None) -> bool:
        try:
            self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def list(self, kind: str, namespace: str | None = None, selector: str | None = None) -> Objects:
        """Return the objects of a kind in all namespaces or one, sorted by name."""
        params = {"labelSelector": selector} if selector else None
        resource = self.resource(kind)
        items = self.request("GET", resource.path(None, namespace), params=params)["items"]
        # The API server omits apiVersion and kind from the items of a list.
        typed = [{"apiVersion": resource.api_version, "kind": resource.kind, **i} for i in items]
        return sorted(typed, key=lambda item: str(item["metadata"]["name"]))

    def patch(
        self,
        kind: str,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: str = "merge",
        subresource: str | None = None,
    ) -> Object:
        """Patch an object with one of PATCH_TYPES."""
        return self.request(
            "PATCH",
            self.resource(kind).path(name, namespace, subresource),
            patch,
            params=STRICT,
            headers={"Content-Type": PATCH_TYPES[patch_type]},
        )

    def delete(
        self, kind: str, name: str, namespace: str | None = None, *, now: bool = False
    ) -> None:
        """Delete an object if it exists; `now` sets the grace period to zero."""
        options: Object = {"propagationPolicy": "Background"}
        if now:
            options["gracePeriodSeconds"] = 0
        try:
            self.request("DELETE", self.resource(kind).path(name, namespace), options)
        except ApiError as error:
            if error.status != 404:
                raise

    def pods(self, namespace: str, selector: str | None = None) -> Objects:
        return self.list("v1/Pod", namespace, selector)

    def bound_pods(self, namespace: str, selector: str | None = None) -> Objects:
        return [pod for pod in self.pods(namespace, selector) if pod["spec"].get("nodeName")]

    def ready_pods(self, namespace: str, selector: str | None = None) -> Objects:
        """Return the pods that are ready and not terminating."""
        return [pod for pod in self.pods(namespace, selector) if is_ready(pod)]

    def wait(
        self,
        predicate: Callable[[], T],
        timeout: float = 60,
        message: str | Callable[[], object] = "",
    ) -> T:
        """Call `predicate` until it returns a true value, and return that value.

        A 404 counts as false.

        Raises:
            TimeoutError: With `message`, which is called only then, and the last value or error.
        """
        deadline = time.monotonic() + timeout
        while True:
            last: object
            try:
                value = predicate()
                if value:
                    return value
                last = value
            except ApiError as error:
                if error.status != 404:
                    raise
                last = error
            if time.monotonic() >= deadline:
                text = message() if callable(message) else message
                raise TimeoutError(f"not within {timeout:g} s: {text} (last seen: {last!r:.2000})")
            time.sleep(POLL_SECONDS)
