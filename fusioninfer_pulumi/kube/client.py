"""Reads from a live cluster through the official Kubernetes client.

Every request has a timeout. The client is imported only when a cluster is read.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

_SECONDS = (5, 15)  # to connect, to respond: a preview must not hang if the cluster is down
_PAGE = 500


class UnreadableError(Exception):
    """The cluster cannot be read; the message says why."""


class KubernetesApi:
    """One connection to a cluster.

    Attributes:
        client: The module `kubernetes.client`.
        connection: Its `ApiClient`, for the typed interfaces.
        unread: What the credentials do not allow to read, with the server's response.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        """Loads a kubeconfig (path or content, None for kubectl's own) and one of its contexts.

        Raises:
            UnreadableError: The kubeconfig is not usable.
        """
        # Start-up time: its import takes as long as that of Pulumi.
        self.client: Any = importlib.import_module("kubernetes.client")
        self._config: Any = importlib.import_module("kubernetes.config")
        self.connection = self._connected(kubeconfig, context)
        self.unread: dict[str, None] = {}

    def _connected(self, kubeconfig: str | None, context: str | None) -> Any:
        configuration = self.client.Configuration()
        configuration.retries = False
        into = {"client_configuration": configuration}
        try:
            if kubeconfig is None and context is None:
                # The kubeconfig that kubectl would use, else this pod's ServiceAccount.
                self._config.load_config(**into)
            elif kubeconfig is None or "\n" not in kubeconfig.strip():
                path = None if kubeconfig is None else str(Path(kubeconfig).expanduser())
                self._config.load_kube_config(path, context, persist_config=False, **into)
            else:
                content = yaml.safe_load(kubeconfig)
                self._config.load_kube_config_from_dict(
                    content, context, persist_config=False, **into
                )
        # Parsers and credential plugins raise errors of any type.
        except Exception as problem:  # noqa: BLE001
            # Messages of YAML errors quote the line, which may hold a credential.
            reason = type(problem).__name__ if isinstance(problem, yaml.YAMLError) else str(problem)
            raise UnreadableError(f"no usable kubeconfig: {one_line(reason)}") from None
        if not configuration.verify_ssl:
            _warn_once()
        return self.client.ApiClient(configuration)

    def get(self, what: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function of the client, and returns the response as JSON; `what` is for messages.

        None for 404, the text "refused" where the server denies access.

        Raises:
            UnreadableError: The cluster does not respond, or does not accept the credentials.
        """
        http: Any = importlib.import_module("urllib3.exceptions")
        try:
            answer = call(*args, _preload_content=False, _request_timeout=_SECONDS, **kwargs)
            return json.loads(answer.data)
        except self.client.ApiException as refused:
            if refused.status == 404:
                return None
            if refused.status == 401:
                raise UnreadableError("the cluster does not accept the credentials") from None
            self.unread[f"{what}: {refused.status} {refused.reason}"] = None
            return "refused"
        except http.HTTPError as problem:
            raise UnreadableError(
                f"the cluster does not answer: {one_line(str(problem))}"
            ) from None

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> tuple[int, dict[str, Any]]:
        """Sends a request and returns its status and JSON; a PATCH is a server-side apply.

        The client's functions differ between its releases, and none applies objects of all kinds.

        Raises:
            UnreadableError: The cluster does not respond, or does not accept the credentials.
        """
        http: Any = importlib.import_module("urllib3")
        connection = self.connection
        headers = {"Accept": "application/json"}
        for setting in connection.configuration.auth_settings().values():
            if setting.get("in") == "header" and setting.get("value"):
                headers[setting["key"]] = setting["value"]
        if body is not None:
            apply = method == "PATCH"
            headers["Content-Type"] = f"application/{'apply-patch+yaml' if apply else 'json'}"
        url = f"{connection.configuration.host}{path}?{urlencode(query or {})}"
        try:
            response = connection.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else _yaml(body),
                headers=headers,
                timeout=http.Timeout(connect=_SECONDS[0], read=_SECONDS[1]),
                retries=False,
            )
        except http.exceptions.HTTPError as problem:
            raise UnreadableError(
                f"the cluster does not answer: {one_line(str(problem))}"
            ) from None
        if response.status == 401:
            raise UnreadableError("the cluster does not accept the credentials")
        try:
            content = json.loads(response.data)
        except ValueError:
            content = {"message": one_line(response.data.decode(errors="replace"))[:500]}
        return response.status, content if isinstance(content, dict) else {}

    def each(
        self, what: str, call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Iterator[dict[str, Any]]:
        """Yields all items of a list, page by page; none if denied or if the kind is unknown."""
        after: str | None = None
        while True:
            page = self.get(what, call, *args, limit=_PAGE, _continue=after, **kwargs)
            yield from items(page)
            after = (page.get("metadata") or {}).get("continue") if isinstance(page, dict) else None
            if not after:
                return

    def changes(
        self, call: Callable[..., Any], *args: Any, seconds: float, **kwargs: Any
    ) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """Watches a list for some seconds, and yields each event's type and object.

        The types are `ADDED`, `MODIFIED` and `DELETED`. It ends early if the server denies access
        or closes the connection.
        """
        http: Any = importlib.import_module("urllib3.exceptions")
        watching = importlib.import_module("kubernetes.watch").Watch()
        # The server ends the watch itself, after whole seconds.
        limit = {"timeout_seconds": math.ceil(seconds), "_request_timeout": (5, seconds + 5)}
        try:
            for event in watching.stream(call, *args, **limit, **kwargs):
                yield event["type"], event["raw_object"]
        except (self.client.ApiException, http.HTTPError):
            return
        finally:
            watching.stop()


#: Characters that YAML takes escaped only.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _yaml(body: Any) -> bytes:
    """JSON that is YAML, too: there an escape is one character, not half of a surrogate pair."""
    text = json.dumps(body, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode(errors="replace")


def _warn_once() -> None:
    """Lets `insecure-skip-tls-verify` warn once, not with each of an update's many requests.

    A filter of the user's own stays.
    """
    category: Any = importlib.import_module("urllib3.exceptions").InsecureRequestWarning
    if not any(entry[2] is category for entry in warnings.filters):
        warnings.simplefilter("once", category)


def items(listed: Any) -> list[Any]:
    """Returns the items of a response, none if it is not a list."""
    return listed.get("items") or [] if isinstance(listed, dict) else []


def one_line(text: str) -> str:
    """Returns a text on one line."""
    return " ".join(text.split())
