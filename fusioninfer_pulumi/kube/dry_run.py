"""The API server's dry run of objects: what it would refuse, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fusioninfer_pulumi.kube.client import KubernetesApi, one_line

Object = Mapping[str, Any]

#: Field manager of objects that no other one has applied.
MANAGER = "fusioninfer-pulumi"
_WORKERS = 8


@dataclass(frozen=True)
class Answer:
    """The API server's answer to one dry run.

    Attributes:
        code: HTTP status; 0 if the server knows no such kind.
        words: What it says, empty where it accepts the object.
        causes: Field and message of each cause that it names.
        about: Kind that the answer is about, which may be another one, such as the namespace.
    """

    code: int
    words: str = ""
    causes: tuple[tuple[str, str], ...] = ()
    about: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the server would store the object, as far as its name is free."""
        # The server checks last whether the name is free.
        return 200 <= self.code < 300 or (self.code == 409 and "already exists" in self.words)


@dataclass(frozen=True)
class DryRunRequest:
    """An object to send, with its namespace.

    Attributes:
        created: Whether it is created, rather than applied: an object that exists already is then
            no reason to judge it as an update.
    """

    manifest: Object
    created: bool


def send_dry_runs(
    api: KubernetesApi,
    trials: Sequence[DryRunRequest],
    next_request: Callable[[Object, Answer], Object | None],
    seconds: float,
) -> list[list[Answer] | None]:
    """Return the answers to each object, None where there was none in time.

    Several are sent at a time, and nothing is stored. An object that exists is judged as an update
    by the manager that applied it last: fields that the new one leaves out are removed.
    `next_request` returns what to send after an answer, and all of them may take `seconds`.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fusioninfer-dry-run")
    try:
        versions = {trial.manifest["apiVersion"] for trial in trials}
        reads = [threads.submit(api.kinds, version) for version in versions]
        wait(reads, seconds, return_when=FIRST_EXCEPTION)
        running = [threads.submit(_answers, api, trial, next_request) for trial in trials]
        wait(running, seconds, return_when=FIRST_EXCEPTION)
        return [future.result() if future.done() else None for future in running]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _answers(
    api: KubernetesApi,
    trial: DryRunRequest,
    next_request: Callable[[Object, Answer], Object | None],
) -> list[Answer]:
    answers: list[Answer] = []
    manifest: Object | None = trial.manifest
    while manifest is not None:
        namespace = manifest["metadata"].get("namespace")
        path = api.path(manifest["apiVersion"], manifest["kind"], namespace and str(namespace))
        if path is None:
            return [Answer(0)]
        if trial.created:
            code, content = api.request("POST", path, _QUERY, manifest)
        else:
            path += f"/{quote(str(manifest['metadata']['name']), safe='')}"
            code, live = api.request("GET", path)
            manager = _applied_by(live) if code == 200 else MANAGER
            query = {**_QUERY, "fieldManager": manager, "force": "true"}
            code, content = api.request("PATCH", path, query, manifest)
        answers.append(_answer(code, content))
        manifest = next_request(manifest, answers[-1])
    return answers


_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


def _applied_by(live: Object) -> str:
    managers = (live.get("metadata") or {}).get("managedFields") or ()
    applied = [
        (str(manager.get("time")), str(manager["manager"]))
        for manager in managers
        if manager.get("operation") == "Apply" and not manager.get("subresource")
    ]
    return max(applied)[1] if applied else MANAGER


def _answer(code: int, content: Mapping[str, Any]) -> Answer:
    if 200 <= code < 300:
        return Answer(code)
    details = content.get("details") or {}
    causes = tuple(
        (str(cause.get("field") or ""), one_line(str(cause.get("message") or "")))
        for cause in details.get("causes") or ()
    )
    message = one_line(str(content.get("message") or f"HTTP status {code}"))
    return Answer(code, message, causes, str(details.get("kind") or ""))
