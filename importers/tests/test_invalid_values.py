"""Invalid values in source manifests have messages of ours, not of pydantic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from mutations import mutants, replace_value
from profiles import examples
from rows import each_row

from fusioninfer_pulumi.findings import Severity
from importers.tests import kserve_samples, kthena_samples, modelplane_samples
from importers.tests.reads import read_source, reject

_PYDANTIC = ("Input should", "function-", "constrained-", "[dict[", "Value error", ".str:", ".int:")

_POD = {
    "nodeSelector": {"a": "b"},
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "h",
         "labelSelector": {"matchLabels": {"modelserving.volcano.sh/name": "ms"}}}
    ]}},
    "volumes": [{"name": "v", "emptyDir": {}}],
}  # fmt: skip
_UPDATE = {"maxUnavailable": 1, "partition": 0}
KTHENA = [
    kthena_samples.serving(
        kthena_samples.role("prefill", entryTemplate=kthena_samples.entry(**_POD)),
        kthena_samples.role(
            "decode", replicas=2, workerReplicas=1, workerTemplate=kthena_samples.entry()
        ),
        metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}},
        group={"gangPolicy": {"minRoleReplicas": {"prefill": 1}}, "restartGracePeriodSeconds": 60},
        replicas=2,
        schedulerName="volcano",
        rolloutStrategy={
            "type": "ServingGroupRollingUpdate", "rollingUpdateConfiguration": _UPDATE
        },
    ),
    kthena_samples.server(kvConnector={"type": "nixl"}, trafficPolicy={"timeout": "10s"}),
    kthena_samples.route(kthena_samples.rule({"modelServerName": "srv", "weight": 100})),
    kthena_samples.policy(disaggregatedTarget=kthena_samples.scaled(
        {"prefill": {"minReplicas": 1, "maxReplicas": 4}}
    )),
]  # fmt: skip
KSERVE = [
    kserve_samples.llm(
        metadata={"labels": {"a": "b"}},
        baseRefs=[{"name": "base"}],
        replicas=2,
        parallelism={"tensor": 1},
        router={
            "route": {},
            "gateway": {"refs": [{"name": "g", "namespace": "k"}]},
            "scheduler": {"config": {"ref": {"name": "c", "key": "k"}}},
        },
    ),
    kserve_samples.config(template={"containers": [{"name": "main", "env": [
        {"name": "A", "value": "1"}
    ]}]}),
    kserve_samples.llm("other", router={"scheduler": {"config": {"inline": {"plugins": []}}}},
                       rolloutStrategy={"maxUnavailable": 1}),
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
     "data": {"k": "plugins: []"}},
]  # fmt: skip
MODELPLANE = [
    modelplane_samples.cached("--model=/mnt/models"),
    modelplane_samples.cache(),
    modelplane_samples.model_service(modelplane_samples.selecting(2, deployment="md")),
    modelplane_samples.deployment(modelplane_samples.paired()["spec"], name="pair"),
]
SETS = {"Kthena": KTHENA, "KServe": KSERVE, "Modelplane": MODELPLANE}


@pytest.mark.parametrize("name", SETS)
def test_documents_are_valid(name: str) -> None:
    assert reject(*SETS[name]) == []


CONFIG = ("spec", "router", "scheduler", "config")
INLINE = "router.scheduler.config.inline"
MEMBER = "template.spec.engines[0].members[0]"
COUNT = "must be a count from 0 to 10000 or a percentage from 0% to 100%"
REJECTED: dict[str, tuple[list[Any], tuple[Any, ...], Any, str]] = {
    "a server's name": (KTHENA, (1, "metadata", "name"), [1],
                        "f#2: metadata.name: must be a string, got [1]"),
    "a route's namespace": (KTHENA, (2, "metadata"), {"name": "r", "namespace": {"a": 1}},
                            'f#3: metadata.namespace: must be a string, got {"a": 1}'),
    "partition": (KTHENA, (0, "spec", "rolloutStrategy", "rollingUpdateConfiguration", "partition"),
                  "x",
                  f'f: rolloutStrategy.rollingUpdateConfiguration.partition: {COUNT}, got "x"'),
    "a target": (KTHENA, (3, "spec", "metrics", 0, "targetValue"), {},
                 "f#4: metrics[0].targetValue: must be a quantity such as 5, 500m or 16Gi, got {}"),
    "a config's name": (KSERVE, (1, "metadata", "name"), {},
                        "f#2: metadata.name: must be a string, got {}"),
    "maxUnavailable": (KSERVE, (2, "spec", "rolloutStrategy", "maxUnavailable"), "x",
                       f'f#3: rolloutStrategy.maxUnavailable: {COUNT}, got "x"'),
    "a configuration": (KSERVE, (2, *CONFIG, "inline"), 3,
                        f"f#3: {INLINE}: must be a mapping or a string, got 3"),
    "a reference": (KSERVE, (0, *CONFIG, "ref", "name"), [1],
                    ("f: router.scheduler.config.ref: cannot be carried over: ConfigMap None "
                     "of namespace default is not in this input; add it as a document, or copy "
                     "its content to config.inline")),
    "a cache's name": (MODELPLANE, (1, "metadata", "name"), [1],
                       "f#2: metadata.name: must be a string, got [1]"),
    "containers": (MODELPLANE, (0, "spec", "template", "spec", "engines", 0, "members", 0,
                                "template", "spec", "containers"), 3,
                   f"f: {MEMBER}.template.spec.containers: must be a list, got 3"),
}  # fmt: skip


@each_row("case", REJECTED)
def test_wrong_value_has_one_error(case: str) -> None:
    documents, at, value, line = REJECTED[case]
    errors = reject(*replace_value(documents, at, value))
    assert [item for item in errors if item.startswith(line.partition(": must")[0])] == [line]


def list_all_findings(documents: Any) -> list[str]:
    """Return all findings of documents; render them unless they are rejected."""
    read = read_source(*documents)
    if not read.has_severity(Severity.ERROR):
        read.render()
    return [str(item) for _, item in read.findings]


@given(documents=st.sampled_from(list(SETS.values())).flatmap(mutants))
@examples(3)
def test_mutated_documents_have_no_pydantic_messages(documents: Any) -> None:
    lines = list_all_findings(documents)
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if any(word in line for word in _PYDANTIC)]
