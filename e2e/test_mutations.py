"""What `check` accepts, the API server accepts: manifests of all systems with slips of the pen."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from e2e.dry_runs import DryRuns, Refusal
from e2e.harness import Cluster, Object
from e2e.mutations import Mutant, mutants
from fusioninfer_pulumi.cli.sources import Source, plan_all
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.loading.documents import read_all

MUTANTS, MUTANTS_LONG = 2_000, 20_000
#: Refused for what a cluster has or has not, not for what stands in the manifest: part of the
#: message, and why `check` accepts it.
EXCEPTIONS: dict[str, str] = {
    "admin access to devices requires": "the label that allows it is one of the namespace",
}
#: Of each class of refusals so many mutants are shown.
_SHOWN = 3


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    """A namespace for objects that are never stored."""
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)


def objects_of(documents: Sequence[Any]) -> list[Object] | None:
    """Every object of an input, as `render` reads it; None where `check` refuses it."""
    source = Source("f")
    named = [(f"f#{number}", each) for number, each in enumerate(documents, start=1)]
    plan_all(source, read_all(named, allow_lossy=True))
    if source.has(Severity.ERROR):
        return None
    # As they are written: a tuple is a list, and a key that is no string is refused by now.
    objects: list[Object] = json.loads(json.dumps(source.rendered()))
    return objects


def refused(runs: DryRuns, seed: int, count: int) -> tuple[int, dict[str, list[str]]]:
    """How many of the mutants are accepted, and the refusals of those by their class."""
    accepted = []
    for mutant in mutants(seed, count):
        objects = objects_of(mutant.documents)
        if objects is not None:
            accepted.append((mutant, runs.refusals(objects)))
    classes: dict[str, list[str]] = defaultdict(list)
    for mutant, futures in accepted:
        for future in futures:
            for refusal in future.result():
                if not any(part in refusal.message for part in EXCEPTIONS):
                    classes[refusal.title].append(f"{mutant.name}: {mutant.slips}"[:400])
    return len(accepted), classes


def report(classes: dict[str, list[str]]) -> str:
    """The classes with some of their mutants, the most frequent first."""
    return "\n".join(
        f"{len(found)} x {title}\n" + "\n".join(f"    {each}" for each in found[:_SHOWN])
        for title, found in sorted(classes.items(), key=lambda item: -len(item[1]))
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves(
    f"of {MUTANTS:,} manifests of all systems with slips of the pen, the API server refuses none "
    "that `check` accepts, nor a StatefulSet or Pod that LeaderWorkerSet would make of it"
)
def test_what_is_accepted_is_accepted_there_too(cluster: Cluster, room: str) -> None:
    accepted, classes = refused(DryRuns(cluster, room), 1, MUTANTS)
    assert accepted > MUTANTS // 10
    assert not classes, report(classes)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves(f"the same of {MUTANTS_LONG:,} manifests")
def test_what_is_accepted_of_many_is_accepted_there_too(cluster: Cluster, room: str) -> None:
    accepted, classes = refused(DryRuns(cluster, room), 2, MUTANTS_LONG)
    assert accepted > MUTANTS_LONG // 10
    assert not classes, report(classes)
