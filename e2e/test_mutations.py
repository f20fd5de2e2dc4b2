"""Rejections of pods by `check`, compared with the API server's, on random mutations of manifests.

Mutations remove or replace values, or add fields from `rare_pod_fields.yaml`.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Cluster
from e2e.inputs import DOCUMENTS
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.pods import template_checks as resources
from fusioninfer_pulumi.checks.server_dry_run import check_dry_runs
from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Origin, Rule, Severity
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.loading.documents import load_documents
from importers.tests import documents, kserve_documents
from tests.mutations import JUNK, Path as Place, locations, replace_value

Manifest = dict[str, Any]

MUTANTS = 500
BASES = Path(__file__).with_name("mutation_bases.yaml")
RARE_FIELDS = Path(__file__).with_name("rare_pod_fields.yaml")
#: Spec fields that contain pod fields.
_HAS_PODS = frozenset({"template", "leaderTemplate", "workerTemplate", "fetcher", "endpointPicker"})
#: Whether a mapping can have the rare fields of a kind.
_CAN_HOLD: Mapping[str, Callable[[Manifest], bool]] = {
    "pod": lambda node: "containers" in node,
    "container": lambda node: "name" in node and bool({"image", "args", "env"} & set(node)),
    "metadata": lambda node: "labels" in node,
    "mount": lambda node: "mountPath" in node,
}


@cache
def list_pod_rules() -> frozenset[str]:
    declared = {rule.id for rule in vars(resources).values() if isinstance(rule, Rule)}
    return frozenset(
        declared
        | {
            "duplicate-name", "field-required", "invalid-format", "name-not-found", "out-of-range",
            "sources-not-one", "unknown-value", "wrong-type",
        }
    )  # fmt: skip


@cache
def read_rare_fields() -> Mapping[str, list[Manifest]]:
    data: dict[str, list[Manifest]] = yaml.safe_load(RARE_FIELDS.read_text(encoding="utf-8"))
    kinds = ("livenessProbe", "readinessProbe", "startupProbe")
    data["container"] += [{kind: fields} for kind in kinds for fields in data["probe"]]
    hooks = ("preStop", "postStart")
    data["container"] += [{"lifecycle": {hook: item}} for hook in hooks for item in data["hook"]]
    data["pod"] += [{"initContainers": [fields]} for fields in data["init"]]
    return data


@cache
def read_bases() -> Sequence[list[Manifest]]:
    dense = yaml.safe_load(BASES.read_text(encoding="utf-8"))["bases"].values()
    services = [yaml.safe_load_all(path.read_text(encoding="utf-8")) for path in DOCUMENTS.values()]
    imported = [*documents.DOCUMENTS.values(), *kserve_documents.acceptable().values()]
    # Manifests with many fields are chosen more often.
    return [*map(list, [*dense] * 4), *map(list, services), *([item] for item in imported)]


def generate_mutants(seed: int, count: int) -> Iterator[list[Manifest]]:
    rng = random.Random(seed)
    for _ in range(count):
        base: list[Manifest] = json.loads(json.dumps(rng.choice(read_bases())))
        for _ in range(rng.choice((1, 1, 1, 2))):
            base = _add_field(rng, base) if rng.random() < 0.6 else _replace_value(rng, base)
        yield base


def _add_field(rng: random.Random, base: list[Manifest]) -> list[Manifest]:
    kind = rng.choice(("pod", "container", "container", "metadata", "mount"))
    holders = [at for at, node in _walk(base) if isinstance(node, dict) and _CAN_HOLD[kind](node)]
    if not holders:
        return base
    at = rng.choice(holders)
    fields = copy.deepcopy(rng.choice(read_rare_fields()[kind]))
    return list(replace_value(base, at, {**_get_value(base, at), **fields}))


def _replace_value(rng: random.Random, base: list[Manifest]) -> list[Manifest]:
    at, value = rng.choice([place for place in _walk(base) if len(place[0]) > 2])
    variants: list[Any] = [None]
    if isinstance(value, str):
        variants = [value.upper(), f" {value}", f"{value}-", f"-{value}", value * 9, f"/{value}"]
    elif isinstance(value, int):
        variants = [-value, value + 2**31, value * 1000]
    elif isinstance(value, list):
        variants = [[*value, *value], value[:-1]]
    return list(replace_value(base, at, copy.deepcopy(rng.choice((*variants, *variants, *JUNK)))))


def _walk(base: list[Manifest]) -> Iterator[tuple[Place, Any]]:
    return ((at, _get_value(base, at)) for at in locations(base))


def _get_value(value: Any, at: Place) -> Any:
    for part in at:
        value = value[part]
    return value


def plan_manifests(base: Sequence[Any]) -> Source:
    source = Source("f")
    named = [(Origin("f", number), document) for number, document in enumerate(base, start=1)]
    plan_documents(source, load_documents(named, allow_lossy=True))
    return source


def is_rejected_by_pod_rules(source: Source) -> bool:
    """Return whether only rules about generated pods reject an input.

    Services with roles scaled to zero are excluded, because these roles render no pods.
    """
    planned = {finding for document in source.planned_documents for _, finding in document.findings}
    errors = {finding for _, finding in source.findings if finding.severity is Severity.ERROR}
    running = all(role.replicas for plan in source.plans for role in plan.roles)
    # Some rule IDs are also used outside pods. The API server accepts images with a space, which no
    # kubelet can pull, and sleep hooks without the required `seconds`.
    in_pods = all(
        _HAS_PODS.intersection(finding.location)
        and not {"image", "sleep"}.intersection(finding.location[-2:])
        for finding in errors
    )
    return (
        bool(errors)
        and running
        and errors <= planned
        and in_pods
        and {finding.rule for finding in errors} <= list_pod_rules()
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.verifies(
    f"The API server rejects what pod rules reject of {MUTANTS} mutated manifests"
)
def test_server_rejects_what_pod_rules_reject_of_mutants(cluster: Cluster, dry_run_ns: str) -> None:
    api = KubernetesApi(str(cluster.kubeconfig), None)
    rejected, accepted = 0, []
    for mutant in generate_mutants(1, MUTANTS):
        source = plan_manifests(mutant)
        if not is_rejected_by_pod_rules(source):
            continue
        rejected += 1
        plans = [replace(plan.in_namespace(dry_run_ns), findings=()) for plan in source.plans]
        findings = [
            item for _, item in check_dry_runs(LiveCluster(api, plans, timeout_seconds=120))
        ]
        if not any(item.rule == "api-server-rejects" for item in findings):
            accepted.append([str(finding) for _, finding in source.findings])
    assert rejected > MUTANTS // 20
    assert accepted == []
