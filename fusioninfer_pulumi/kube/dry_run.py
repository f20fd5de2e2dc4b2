"""Server-side dry runs: whether the API server would accept objects, and its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fusioninfer_pulumi.kube.client import KubernetesApi, one_line

Object = Mapping[str, Any]

#: Field manager for objects that nobody has applied yet.
MANAGER = "fusioninfer-pulumi"
_WORKERS = 8


@dataclass(frozen=True)
class Answer:
    """The API server's answer to one dry run.

    Attributes:
        code: HTTP status; 0 if the server does not serve the kind.
        reply: The server's message, empty if it accepts the object.
        causes: Field and message of each cause in the response.
        kind: Resource that the reply is about: the object's or another, such as `namespaces`.
    """

    code: int
    reply: str = ""
    causes: tuple[tuple[str, str], ...] = ()
    kind: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the server would store the object if its name is free."""
        # The server rejects an existing name only after all other checks.
        return 200 <= self.code < 300 or (self.code == 409 and "already exists" in self.reply)


@dataclass(frozen=True)
class DryRunRequest:
    """An object to send.

    Attributes:
        manifest: The object, with its namespace.
        created: Whether to create the object, not to apply it: a creation is not checked as an
            update of an object that exists already.
    """

    manifest: Object
    created: bool


def send_dry_runs(
    api: KubernetesApi,
    requests: Sequence[DryRunRequest],
    next_request: Callable[[Object, Answer], Object | None],
    seconds: float,
) -> list[list[Answer] | None]:
    """Return the answers to each object, None if they did not arrive within `seconds` in all.

    The API server stores nothing. It checks an existing object as an update by the manager that
    applied it last: fields that the new object lacks are removed. `next_request` returns the
    object to send after an answer, or None.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fusioninfer-dry-run")
    try:
        versions = {request.manifest["apiVersion"] for request in requests}
        reads = [threads.submit(api.kinds, version) for version in versions]
        wait(reads, seconds, return_when=FIRST_EXCEPTION)
        running = [threads.submit(_send, api, request, next_request) for request in requests]
        wait(running, seconds, return_when=FIRST_EXCEPTION)
        return [future.result() if future.done() else None for future in running]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _send(
    api: KubernetesApi,
    request: DryRunRequest,
    next_request: Callable[[Object, Answer], Object | None],
) -> list[Answer]:
    answers: list[Answer] = []
    manifest: Object | None = request.manifest
    while manifest is not None:
        namespace = manifest["metadata"].get("namespace")
        path = api.path(manifest["apiVersion"], manifest["kind"], namespace and str(namespace))
        if path is None:
            return [Answer(0)]
        if request.created:
            code, content = api.request("POST", path, _QUERY, manifest)
        else:
            path += f"/{quote(str(manifest['metadata']['name']), safe='')}"
            code, live = api.request("GET", path)
            manager = _last_manager(live) if code == 200 else MANAGER
            query = {**_QUERY, "fieldManager": manager, "force": "true"}
            code, content = api.request("PATCH", path, query, manifest)
        answers.append(_parse_answer(code, content))
        manifest = next_request(manifest, answers[-1])
    return answers


_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


def _last_manager(live: Object) -> str:
    managers = (live.get("metadata") or {}).get("managedFields") or ()
    applied = [
        (str(manager.get("time")), str(manager["manager"]))
        for manager in managers
        if manager.get("operation") == "Apply" and not manager.get("subresource")
    ]
    return max(applied)[1] if applied else MANAGER


def _parse_answer(code: int, content: Mapping[str, Any]) -> Answer:
    if 200 <= code < 300:
        return Answer(code)
    details = content.get("details") or {}
    causes = tuple(
        (str(cause.get("field") or ""), one_line(str(cause.get("message") or "")))
        for cause in details.get("causes") or ()
    )
    message = one_line(str(content.get("message") or f"HTTP status {code}"))
    return Answer(code, message, causes, str(details.get("kind") or ""))
