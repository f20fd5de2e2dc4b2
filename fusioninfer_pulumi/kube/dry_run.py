"""The API server's dry run of objects: what it would refuse, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fusioninfer_pulumi.kube.client import KubernetesApi, one_line

Object = Mapping[str, Any]
#: Path of the collection of each kind, with a place for the namespace.
Collections = Mapping[str, str]

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
class Trial:
    """An object to send, with its namespace.

    Attributes:
        created: Whether it is created, rather than applied: an object that exists already is then
            no reason to judge it as an update.
    """

    manifest: Object
    created: bool


def dry_runs(
    api: KubernetesApi,
    trials: Sequence[Trial],
    next_try: Callable[[Object, Answer], Object | None],
    seconds: float,
) -> list[list[Answer] | None]:
    """Returns the answers to each object, None where there was none in time.

    Several are sent at a time, and nothing is stored. An object that exists is judged as an update
    by the manager that applied it last: fields that the new one leaves out are removed.

    Args:
        api: The cluster.
        trials: The objects.
        next_try: What to send after an answer, None for nothing.
        seconds: How long all of them may take.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fusioninfer-dry-run")
    try:
        versions = dict.fromkeys(trial.manifest["apiVersion"] for trial in trials)
        collections = {version: threads.submit(_collections, api, version) for version in versions}
        running = [threads.submit(_answers, api, collections, trial, next_try) for trial in trials]
        wait(running, seconds, return_when=FIRST_EXCEPTION)
        return [future.result() if future.done() else None for future in running]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _collections(api: KubernetesApi, api_version: str) -> Collections:
    group = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
    code, answer = api.request("GET", group)
    resources = answer.get("resources") or () if code == 200 else ()
    return {
        resource[
            "kind"
        ]: f"{group}{'/namespaces/{}' if resource['namespaced'] else ''}/{resource['name']}"
        for resource in resources
        if "/" not in resource["name"]
    }


def _answers(
    api: KubernetesApi,
    collections: Mapping[str, Future[Collections]],
    trial: Trial,
    next_try: Callable[[Object, Answer], Object | None],
) -> list[Answer]:
    collection = collections[trial.manifest["apiVersion"]].result().get(trial.manifest["kind"])
    if collection is None:
        return [Answer(0)]
    answers: list[Answer] = []
    manifest: Object | None = trial.manifest
    while manifest is not None:
        send = _create if trial.created else _apply
        namespace = _quoted(manifest["metadata"].get("namespace"))
        answers.append(send(api, collection.format(namespace), manifest))
        manifest = next_try(manifest, answers[-1])
    return answers


_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


def _create(api: KubernetesApi, path: str, manifest: Object) -> Answer:
    return _answer(*api.request("POST", path, _QUERY, manifest))


def _apply(api: KubernetesApi, path: str, manifest: Object) -> Answer:
    path = f"{path}/{_quoted(manifest['metadata']['name'])}"
    code, live = api.request("GET", path)
    manager = _applied_by(live) if code == 200 else MANAGER
    query = {**_QUERY, "fieldManager": manager, "force": "true"}
    return _answer(*api.request("PATCH", path, query, manifest))


def _applied_by(live: Object) -> str:
    managers = (live.get("metadata") or {}).get("managedFields") or ()
    applied = [
        (str(manager.get("time")), str(manager["manager"]))
        for manager in managers
        if manager.get("operation") == "Apply" and not manager.get("subresource")
    ]
    return max(applied)[1] if applied else MANAGER


def _quoted(name: Any) -> str:
    return quote(str(name), safe="")


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
