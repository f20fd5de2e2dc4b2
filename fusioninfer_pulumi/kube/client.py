"""Asks a live cluster, with the official client (the extra `cluster`), and never for long.

The only place that knows the client; it is imported when a cluster is asked.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import yaml

_SECONDS = (5, 15)  # to connect, to answer: a preview must not hang on a cluster that is away
_PAGE = 500


class UnreadableError(Exception):
    """The cluster cannot be read; the text says why."""


class KubernetesApi:
    """One connection, and what it was not allowed to read.

    Attributes:
        client: The module `kubernetes.client`.
        connection: Its `ApiClient`, for its typed interfaces.
        unread: What one has no rights to read, with the server's answer.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        """Reads a kubeconfig.

        Args:
            kubeconfig: Path or text of a kubeconfig, None for the one that kubectl would use.
            context: Its context, None for the current one.

        Raises:
            UnreadableError: There is no client or no usable kubeconfig.
        """
        try:
            # By name, so that neither importing this package nor type checking needs the extra.
            self.client: Any = importlib.import_module("kubernetes.client")
            self._config: Any = importlib.import_module("kubernetes.config")
        except ImportError:
            raise UnreadableError(
                "the Kubernetes client is not installed (pip install 'fusioninfer-pulumi[cluster]')"
            ) from None
        self.connection = self._connected(kubeconfig, context)
        self.unread: dict[str, None] = {}

    def _connected(self, kubeconfig: str | None, context: str | None) -> Any:
        configuration = self.client.Configuration()
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
        return self.client.ApiClient(configuration)

    def get(self, what: str, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Asks for one thing.

        Args:
            what: Its name, for messages.
            call: A function of the client.
            given: What the function is given.
            more: The same, by name.

        Returns:
            The answer as JSON, None where there is nothing, words where it is refused.

        Raises:
            UnreadableError: The cluster does not answer, or does not accept the credentials.
        """
        http: Any = importlib.import_module("urllib3.exceptions")
        try:
            answer = call(*given, _preload_content=False, _request_timeout=_SECONDS, **more)
            return json.loads(answer.data)
        except self.client.ApiException as refused:
            if refused.status == 404:
                return None
            if refused.status == 401:
                raise UnreadableError("the cluster does not accept the credentials") from None
            self.unread[f"{what}: {refused.status} {refused.reason}"] = None
            return "refused"
        except http.HTTPError as problem:
            raise UnreadableError(f"the cluster does not answer: {_line(str(problem))}") from None

    def each(
        self, what: str, call: Callable[..., Any], *given: Any, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Yields all items of a list, page by page; none where it is refused or absent."""
        after: str | None = None
        while True:
            page = self.get(what, call, *given, limit=_PAGE, _continue=after, **more)
            yield from items(page)
            after = (page.get("metadata") or {}).get("continue") if isinstance(page, dict) else None
            if not after:
                return

    def changes(
        self, call: Callable[..., Any], *given: Any, seconds: float, **more: Any
    ) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """Yields what a list holds, and then every change of it.

        Args:
            call: The client's function for the list.
            given: What the function is given.
            seconds: How long to watch.
            more: What the function is given, by name.

        Yields:
            The kind of each change (`ADDED`, `MODIFIED`, `DELETED`) and the object. It ends early
            where the server refuses or goes away.
        """
        http: Any = importlib.import_module("urllib3.exceptions")
        watching = importlib.import_module("kubernetes.watch").Watch()
        # The server counts whole seconds, and ends the watch itself.
        limit = {"timeout_seconds": math.ceil(seconds), "_request_timeout": (5, seconds + 5)}
        try:
            for each in watching.stream(call, *given, **limit, **more):
                yield each["type"], each["raw_object"]
        except (self.client.ApiException, http.HTTPError):
            return
        finally:
            watching.stop()


def items(listed: Any) -> list[Any]:
    """The items of an answer; none where it is no list."""
    return listed.get("items") or [] if isinstance(listed, dict) else []


def _line(text: str) -> str:
    return " ".join(text.split())
