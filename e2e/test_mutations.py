"""What `check` accepts, the API server accepts: manifests of all systems with slips of the pen."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from e2e.dry_runs import DryRuns, Rejection
from e2e.harness import Cluster, Object
from e2e.mutations import mutants
from fusioninfer_pulumi.checks.pods import template as resources
from fusioninfer_pulumi.checks.server_dry_run import check_on_api_server
from fusioninfer_pulumi.cli.read_sources import plan_documents
from fusioninfer_pulumi.cli.source import Source
from fusioninfer_pulumi.findings import Origin, Rule, Severity, errors
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.loading.documents import load_documents
from fusioninfer_pulumi.plan.service_objects import render

MUTANTS, MUTANTS_LONG = 500, 20_000
#: Rules of warnings about what depends on the cluster, and why they are no errors.
WARNED: dict[str, str] = {
    "field-of-experimental-channel": "clusters with that channel of the Gateway API take it",
}
#: Rejected for what a cluster has or has not: a part of the message, and why `check` accepts it.
ELSEWHERE: dict[str, str] = {
    "admin access to devices requires": "the label that allows it is one of the namespace",
}
#: Words of an admission plugin about fields that the dry runs here leave out.
_OF_CLUSTERS = "priority admission controller"
#: Fields in whose locations there is one of a pod.
_OF_PODS = frozenset({"template", "leaderTemplate", "workerTemplate", "fetcher", "endpointPicker"})
#: Of each class of rejections so many mutants are shown.
_SHOWN = 3


@cache
def own_rules() -> frozenset[str]:
    """Ids of the rules about finished pods."""
    declared = {rule.id for rule in vars(resources).values() if isinstance(rule, Rule)}
    return frozenset(
        declared
        | {
            "duplicate-name", "field-required", "invalid-format", "name-not-found", "out-of-range",
            "sources-not-one", "unknown-value", "wrong-type",
        }
    )  # fmt: skip


def read(documents: Sequence[Any]) -> Source:
    source = Source("f")
    named = [(Origin("f", number), each) for number, each in enumerate(documents, start=1)]
    plan_documents(source, load_documents(named, allow_lossy=True))
    return source


def objects_of(source: Source) -> list[Object]:
    """Every object of an input, as it is written: a tuple is a list."""
    objects: list[Object] = json.loads(json.dumps(source.rendered()))
    return objects


def refused_by_pods_alone(source: Source) -> bool:
    """Whether nothing is wrong with an input but what the rules about finished pods say.

    Not of a service without pods: nothing of a parked role is rendered.
    """
    planned = {finding for document in source.planned for _, finding in document.findings}
    wrong = {finding for _, finding in source.findings if finding.severity is Severity.ERROR}
    running = all(role.replicas for plan in source.plans for role in plan.roles)
    # Rules about gangs and autoscalers have some of the same ids.
    # The API server accepts images with a space, which no kubelet can pull, and hooks that sleep
    # for no time, although `seconds` is required in its schema.
    in_pods = all(
        _OF_PODS.intersection(finding.location)
        and not {"image", "sleep"}.intersection(finding.location[-2:])
        for finding in wrong
    )
    return running and wrong <= planned and in_pods and {f.rule for f in wrong} <= own_rules()


@dataclass
class Outcome:
    """What became of mutants.

    Attributes:
        accepted: Those that `check --server` accepts.
        offline: Those that `check` accepts.
        rejected: Those that rules about finished pods alone reject.
        rejections: What the API server rejects of the accepted ones, by class.
        taken: Ones that were rejected offline or by `--server`, and that the API server takes.
    """

    accepted: int = 0
    offline: int = 0
    rejected: int = 0
    rejections: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    taken: list[str] = field(default_factory=list)

    def report(self) -> str:
        """The classes with some of their mutants, the most frequent first."""
        lines = [
            f"{len(found)} x {title}\n" + "\n".join(f"    {each}" for each in found[:_SHOWN])
            for title, found in sorted(self.rejections.items(), key=lambda item: -len(item[1]))
        ]
        return "\n".join([*lines, *(f"refused without reason: {each}" for each in self.taken)])


def outcome(runs: DryRuns, api: KubernetesApi, seed: int, count: int) -> Outcome:
    """Checks mutants with the API server, and creates what they become by dry run.

    The dry runs here are made of what the server would store, by code that `check` does not use.
    """
    found, sent = Outcome(), []
    for mutant in mutants(seed, count):
        source = read(mutant.documents)
        rules = {finding.rule for _, finding in source.findings}
        name = f"{mutant.name}: {mutant.slips}"[:400]
        if not source.has(Severity.ERROR):
            found.offline += 1
            plans = [plan.in_namespace(runs.namespace) for plan in source.plans]
            answers = check_on_api_server(api, plans, seconds=120)
            rejected = [finding for answer in answers for finding in errors(answer)]
            if rejected and all(_OF_CLUSTERS in each.message for each in rejected):
                continue
            accepted = not rejected
            found.accepted += accepted
            sent.append((name, rules, accepted, runs.rejections(objects_of(source))))
        elif refused_by_pods_alone(source):
            found.rejected += 1
            plans = [replace(plan, findings=()) for plan in source.plans]
            objects = json.loads(json.dumps([each for plan in plans for each in render(plan)]))
            sent.append((name, rules, False, runs.rejections(objects)))
    for name, rules, accepted, futures in sent:
        rejections = [rejection for future in futures for rejection in future.result()]
        if not accepted and not rejections:
            found.taken.append(f"{name} {sorted(rules & own_rules())}")
        for rejection in rejections if accepted else ():
            if not _excepted(rejection, rules):
                found.rejections[rejection.title].append(name)
    return found


def _excepted(rejection: Rejection, rules: set[str]) -> bool:
    warned = bool(rules & WARNED.keys()) and "unknown field" in rejection.message
    return warned or any(part in rejection.message for part in ELSEWHERE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(seed, count, marks=[*marks, pytest.mark.proves(
            f"`check --server` and the API server agree on {count:,} mutated manifests")])
        for seed, count, marks in ((1, MUTANTS, []), (2, MUTANTS_LONG, [pytest.mark.long]))
    ],
)  # fmt: skip
def test_check_server_agrees_with_the_api_server(
    cluster: Cluster, room: str, seed: int, count: int
) -> None:
    found = outcome(
        DryRuns(cluster, room), KubernetesApi(str(cluster.kubeconfig), None), seed, count
    )
    assert found.offline > found.accepted > count // 10
    assert found.rejected > count // 20
    assert not found.report(), found.report()
