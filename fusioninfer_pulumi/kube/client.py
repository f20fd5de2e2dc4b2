"""Client for a live cluster: objects by kind, served kinds and versions, watches, dry runs.

Every request has a timeout. The official client finds the credentials, and is imported only when a
cluster is read. This module sends the requests itself, because the official client's functions for
objects differ between its releases.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import yaml

Object = dict[str, Any]

# Seconds to connect and to respond. Without them a preview would hang if the cluster is down.
_CONNECT_TIMEOUT, _READ_TIMEOUT = 5, 15
_PAGE_SIZE = 500
#: Path of objects; the capturing groups are the namespace and the rest of the path.
_OBJECT_PATH = re.compile(r"/apis?/(?:[^/]+/)?v[^/]+/(?:namespaces/([^/]+)/)?(.+)")
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class UnreadableError(Exception):
    """The cluster cannot be read; the message has the reason."""


class KubernetesApi:
    """A connection to a cluster, with a cache of the kinds that the cluster serves.

    Methods accept as `api` the core API `v1`, a group with a version (`apps/v1`), or a group alone.
    For a group they use its preferred version, or the first other version that has the kind.

    Attributes:
        unread: Counts failed reads by description, such as `pods in default: 403 Forbidden`. A 404
            is not a failure.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        """Load a context of a kubeconfig (path or content); None means kubectl's default.

        Raises:
            UnreadableError: The kubeconfig is not usable.
        """
        self._connection = _connect(kubeconfig, context)
        self._paths: dict[str, dict[str, str]] = {}
        self.unread: Counter[str] = Counter()

    @cached_property
    def versions(self) -> Mapping[str, tuple[str, ...]]:
        """Served versions of each API group, the preferred one first; empty if access is denied."""
        groups = (self._read("/apis") or {}).get("groups") or ()
        versions = {}
        for group in groups:
            served_versions = [
                item["version"] for item in (group["preferredVersion"], *group["versions"])
            ]
            # The group's `versions` contain the preferred version again.
            versions[group["name"]] = tuple(dict.fromkeys(served_versions))
        return versions

    @cached_property
    def release(self) -> str:
        """Release of the API server, such as `v1.35.4`; empty if access is denied."""
        return str((self._read("/version") or {}).get("gitVersion") or "")

    def kind_paths(self, api_version: str) -> Mapping[str, str]:
        """Return the path of each kind of an API version, with `{}` for the namespace.

        Empty if the cluster does not serve the version or denies access to its list of kinds.
        """
        if api_version not in self._paths:
            root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            resources = (self._read(root) or {}).get("resources") or ()
            paths = {}
            for resource in resources:
                is_subresource = "/" in resource["name"]
                if not is_subresource:
                    directory = f"{root}/namespaces/{{}}" if resource["namespaced"] else root
                    paths[resource["kind"]] = f"{directory}/{resource['name']}"
            self._paths[api_version] = paths
        return self._paths[api_version]

    def path(self, api: str, kind: str, namespace: str | None = None) -> str | None:
        """Return the path of a kind's objects in a namespace, or in all if `namespace` is None.

        Return None if the cluster does not serve the kind.
        """
        if "/" in api or api == "v1":
            api_versions = [api]
        else:
            api_versions = [f"{api}/{version}" for version in self.versions.get(api, ())]
        for api_version in api_versions:
            path = self.kind_paths(api_version).get(kind)
            if path is None:
                continue
            if namespace is None:
                return path.replace("/namespaces/{}", "")
            return path.format(quote(namespace, safe=""))
        return None

    def get(self, api: str, kind: str, namespace: str | None, name: str) -> Object | None:
        """Return one object, or None if it does not exist or access is denied."""
        path = self.path(api, kind, namespace)
        return None if path is None else self._read(f"{path}/{quote(name, safe='')}")

    def has(self, api: str, kind: str, namespace: str | None, name: str) -> bool | None:
        """Return whether an object exists; None if access is denied or its kind is not served."""
        path = self.path(api, kind, namespace)
        if path is None:
            return None
        unread_before = self.unread.total()
        content = self._read(f"{path}/{quote(name, safe='')}", accept=_METADATA_ONLY)
        return None if self.unread.total() > unread_before else content is not None

    def list_objects(
        self, api: str, kind: str, namespace: str | None = None, **selectors: str
    ) -> list[Object] | None:
        """Return all objects of a kind, or None if the kind is not served or access is denied.

        `selectors` are query parameters, such as `labelSelector`.
        """
        path = self.path(api, kind, namespace)
        if path is None:
            return None
        objects: list[Object] = []
        query = {**selectors, "limit": str(_PAGE_SIZE)}
        while True:
            page = self._read(path, query)
            if page is None:
                return None
            objects += page.get("items") or ()
            next_page = (page.get("metadata") or {}).get("continue")
            if not next_page:
                return objects
            query["continue"] = next_page

    def watch(
        self, api: str, kind: str, namespace: str, *, seconds: float, **selectors: str
    ) -> Generator[tuple[str, Object], None, None]:
        """Watch a kind for `seconds`, and yield each event's type and object.

        The types are `ADDED`, `MODIFIED` and `DELETED`. The watch ends early, without an error, if
        the kind is not served, access is denied, or the connection of the watch fails.
        """
        http: Any = importlib.import_module("urllib3.exceptions")
        path = self.path(api, kind, namespace)
        if path is None:
            return
        # The server ends the watch itself, after whole seconds.
        query = {**selectors, "watch": "true", "timeoutSeconds": str(math.ceil(seconds))}
        try:
            response = self._send("GET", path, query, seconds=seconds + 5, stream=True)
        except UnreadableError:
            return
        try:
            if response.status != 200:
                return
            partial_line = b""
            for part in response.stream(decode_content=False):
                *lines, partial_line = (partial_line + part).split(b"\n")
                for event in map(json.loads, filter(None, lines)):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        yield event["type"], event["object"]
        except http.HTTPError:
            return
        finally:
            response.close()

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = "application/json",
    ) -> tuple[int, Object]:
        """Send a request and return its status and JSON; a PATCH is a server-side apply.

        Raises:
            UnreadableError: The cluster does not respond, or does not accept the credentials.
        """
        response = self._send(method, path, query or {}, body, accept)
        if response.status == 401:
            raise UnreadableError("the cluster does not accept the credentials")
        try:
            content = json.loads(response.data)
        except ValueError:
            content = {"message": _join_lines(response.data.decode(errors="replace"))[:500]}
        return response.status, (content if isinstance(content, dict) else {})

    def _read(
        self, path: str, query: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> Object | None:
        """Return the response to a GET, or None; `unread` counts failures other than 404."""
        code, content = self.request("GET", path, query, accept=accept)
        if 200 <= code < 300:
            return content
        if code != 404:
            match = _OBJECT_PATH.fullmatch(path)
            name = path if match is None else match[2]
            namespace = f" in {match[1]}" if match is not None and match[1] else ""
            self.unread[f"{name}{namespace}: {code} {content.get('reason') or ''}".rstrip()] += 1
        return None

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        accept: str = "application/json",
        *,
        seconds: float = _READ_TIMEOUT,
        stream: bool = False,
    ) -> Any:
        http: Any = importlib.import_module("urllib3")
        headers = {"Accept": accept}
        for setting in self._connection.configuration.auth_settings().values():
            if setting.get("in") == "header" and setting.get("value"):
                headers[setting["key"]] = setting["value"]
        if body is not None:
            subtype = "apply-patch+yaml" if method == "PATCH" else "json"
            headers["Content-Type"] = f"application/{subtype}"
        try:
            return self._connection.rest_client.pool_manager.request(
                method,
                f"{self._connection.configuration.host}{path}?{urlencode(query)}",
                body=None if body is None else _serialize(body),
                headers=headers,
                timeout=http.Timeout(connect=_CONNECT_TIMEOUT, read=seconds),
                retries=False,
                preload_content=not stream,
            )
        except http.exceptions.HTTPError as exc:
            reason = _join_lines(str(exc))
            raise UnreadableError(f"the cluster does not respond: {reason}") from None


def _connect(kubeconfig: str | None, context: str | None) -> Any:
    # Startup time: importing the official client takes as long as importing Pulumi.
    client: Any = importlib.import_module("kubernetes.client")
    config: Any = importlib.import_module("kubernetes.config")
    configuration = client.Configuration()
    configuration.retries = False
    options = {"client_configuration": configuration}
    try:
        if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            # In a pod: the kubeconfig that kubectl would use, or else the pod's ServiceAccount.
            config.load_config(**options)
        elif kubeconfig is None or "\n" not in kubeconfig.strip():  # a path has one line
            path = None if kubeconfig is None else str(Path(kubeconfig).expanduser())
            config.load_kube_config(path, context, persist_config=False, **options)
        else:
            content = yaml.safe_load(kubeconfig)
            config.load_kube_config_from_dict(content, context, persist_config=False, **options)
    except Exception as exc:  # noqa: BLE001  # parsers and credential plugins raise any type
        # Messages of YAML errors quote the line, which may hold a credential.
        reason = type(exc).__name__ if isinstance(exc, yaml.YAMLError) else str(exc)
        raise UnreadableError(
            f"no usable kubeconfig: {_join_lines(reason)}; correct it, or set KUBECONFIG"
        ) from None
    if not configuration.verify_ssl:
        # An update sends many requests. Warn only once, unless a filter for the warning exists.
        category: Any = importlib.import_module("urllib3.exceptions").InsecureRequestWarning
        if not any(filtered is category for _, _, filtered, *_ in warnings.filters):
            warnings.simplefilter("once", category)
    return client.ApiClient(configuration)


#: Characters that YAML accepts only as escapes such as `\u2028`.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _serialize(body: Any) -> bytes:
    """Serialize to JSON that is also YAML, as server-side apply requires."""
    # JSON escapes characters above U+FFFF as surrogate pairs, which YAML does not accept.
    text = json.dumps(body, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode(errors="replace")


def _join_lines(text: str) -> str:
    """Replace line breaks and runs of other whitespace with single spaces."""
    return " ".join(text.split())


#: Field manager of dry runs of objects that have never been applied.
_DEFAULT_MANAGER = "fusioninfer-pulumi"
_WORKERS = 8
_DRY_RUN_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


@dataclass(frozen=True)
class Response:
    """The API server's response to a dry run.

    Attributes:
        code: HTTP status; 0 if the object was not sent, because its kind is not served.
        reply: The server's message, or empty if the server accepts the object.
        causes: Field and message of each cause in the response.
        resource: Resource that the reply is about, such as `pods`, or `namespaces` if the object's
            namespace is missing.
    """

    code: int
    reply: str = ""
    causes: tuple[tuple[str, str], ...] = ()
    resource: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the server would store the object if its name were free."""
        # The server rejects an existing name only after all other checks.
        return 200 <= self.code < 300 or (self.code == 409 and "already exists" in self.reply)


def send_dry_runs(
    api: KubernetesApi,
    manifests: Sequence[Mapping[str, Any]],
    next_request: Callable[[Mapping[str, Any], Response], Mapping[str, Any] | None],
    seconds: float,
) -> list[list[Response] | None]:
    """Send dry runs of objects, and return the responses to each object, or None after a timeout.

    The API server stores nothing. Pods are sent as new objects. Other objects are sent as
    server-side applies by the manager that last applied them, so fields that the new object lacks
    are removed. `next_request` maps each object and its response to None, or to a modified object
    that is then sent too. Reading the served kinds may take `seconds`, and so may sending.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fusioninfer-dry-run")
    try:
        versions = {manifest["apiVersion"] for manifest in manifests}
        reads = [threads.submit(api.kind_paths, version) for version in versions]
        wait(reads, seconds, return_when=FIRST_EXCEPTION)
        running = [threads.submit(_dry_run, api, manifest, next_request) for manifest in manifests]
        wait(running, seconds, return_when=FIRST_EXCEPTION)
        return [future.result() if future.done() else None for future in running]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _dry_run(
    api: KubernetesApi,
    manifest: Mapping[str, Any] | None,
    next_request: Callable[[Mapping[str, Any], Response], Mapping[str, Any] | None],
) -> list[Response]:
    responses: list[Response] = []
    while manifest is not None:
        namespace = manifest["metadata"].get("namespace")
        namespace = None if namespace is None else str(namespace)
        path = api.path(manifest["apiVersion"], manifest["kind"], namespace)
        if path is None:
            return [Response(0)]
        if manifest["kind"] == "Pod":
            code, content = api.request("POST", path, _DRY_RUN_QUERY, manifest)
        else:
            path += f"/{quote(str(manifest['metadata']['name']), safe='')}"
            code, live = api.request("GET", path)
            manager = _get_last_manager(live) if code == 200 else _DEFAULT_MANAGER
            query = {**_DRY_RUN_QUERY, "fieldManager": manager, "force": "true"}
            code, content = api.request("PATCH", path, query, manifest)
        response = _parse_response(code, content)
        responses.append(response)
        manifest = next_request(manifest, response)
    return responses


def _get_last_manager(live: Mapping[str, Any]) -> str:
    managers = (live.get("metadata") or {}).get("managedFields") or ()
    times_and_names = [
        (str(manager.get("time")), str(manager["manager"]))
        for manager in managers
        if manager.get("operation") == "Apply" and not manager.get("subresource")
    ]
    _, last_manager = max(times_and_names, default=("", _DEFAULT_MANAGER))
    return last_manager


def _parse_response(code: int, content: Mapping[str, Any]) -> Response:
    if 200 <= code < 300:
        return Response(code)
    details = content.get("details") or {}
    causes = tuple(
        (str(cause.get("field") or ""), _join_lines(str(cause.get("message") or "")))
        for cause in details.get("causes") or ()
    )
    message = _join_lines(str(content.get("message") or f"HTTP status {code}"))
    return Response(code, message, causes, str(details.get("kind") or ""))
