"""Refused documents: what else is wrong with them is told too, and nothing that is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mutations import Path, changed, places
from profiles import examples
from samples import Manifest, container, nodes, prefill_decode, problems, role, service, template
from strategies import services

from fusioninfer_pulumi.checked import checked
from fusioninfer_pulumi.findings import Finding, errors
from fusioninfer_pulumi.loading.validate import examine

INTEGER = 'replicas: must be an integer, got "2"'
SHORT = (
    "roles[{}].template.spec.containers[0].args: --tensor-parallel-size 4 needs 4 accelerators, "
    "but the pod has 1"
)
SPLIT = template(container(gpus=1, args=["--model", "m", "--tensor-parallel-size", "4"]))


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (service(role(replicas="2", template=SPLIT)), [f"roles[0].{INTEGER}", SHORT.format(0)]),
        (
            service(role(replicas="2"), role("other", template=SPLIT)),
            [f"roles[0].{INTEGER}", SHORT.format(1)],
        ),
        (
            service(role(1, template=SPLIT)),
            ["roles[0].name: must be a string, got 1", SHORT.format(0)],
        ),
        (
            service(role(autoscaling={"metrics": [{"target": 5}]}, template=SPLIT)),
            ["roles[0].autoscaling.maxReplicas: is required", SHORT.format(0)],
        ),
        (
            service(role(template=SPLIT), schedulingStrategy={"gangPolicy": {"mode": "of"}}),
            [
                'schedulingStrategy.gangPolicy.mode: must be one of Auto, On, Off, got "of"',
                SHORT.format(0),
            ],
        ),
        (
            service(role(strategy="queue-size", template=SPLIT)),
            [
                (
                    "roles[0].strategy: belongs to a role of componentType router (this role is a "
                    "worker)"
                ),
                SHORT.format(0),
            ],
        ),
        (
            {**service(role(template=SPLIT)), "metadata": 5},
            ["metadata: must be a mapping, got 5", SHORT.format(0)],
        ),
        (
            prefill_decode(prefill={"replicas": "2"}, decode={"template": {"spec": {}}}),
            [f"roles[0].{INTEGER}", "roles[1].template.spec.containers: is required: a list"],
        ),
    ],
)
def test_what_pods_have_wrong_is_told_beside_what_their_role_has_wrong(
    manifest: Manifest, expected: list[str]
) -> None:
    assert problems(manifest) == expected


WIDE = template(container(gpus=8, args=["--model", "m", "--tensor-parallel-size", "16"]))
SCALED = {"maxReplicas": 3, "metrics": [{"name": "queue", "target": 5}]}
CACHE = {"claimName": "c", "job": {"timeout": "1h"}}


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (service(role(template=WIDE, multinode=nodes("2"))), "roles[0].multinode.nodeCount"),
        (service(role(template=WIDE, multinod=nodes(2))), "roles[0].multinod"),
        (
            service(role(multinode=nodes("4"), subGroupPolicy={"subGroupSize": 2})),
            "roles[0].multinode.nodeCount",
        ),
        (
            service(role(template=SPLIT, resourceClaims=[{"name": "A", "deviceClassName": "d"}])),
            "roles[0].resourceClaims[0].name",
        ),
        (service(role(kvTransfer={}, component_type="decoders")), "roles[0].componentType"),
        (
            service(
                role(leaderTemplate="x", workerTemplate=template(), template=None,
                     multinode=nodes(2))
            ),
            "roles[0].leaderTemplate",
        ),
        (
            service(
                role(multinode=nodes(2), startupPolicy="LeaderReady"),
                schedulingStrategy={"gangPolicy": {"mode": "of"}},
            ),
            "schedulingStrategy.gangPolicy.mode",
        ),
        (service(role(autoscaling=SCALED), layout="PerRol"), "layout"),
        (
            service(
                role(template=template(container(args=[]))),
                model={"uri": "hf://a/b", "cache": {**CACHE, "warmUp": "yes"}},
            ),
            "model.cache.warmUp",
        ),
        (service(prefillDecodeRatio={"max": 1}, rolls=[]), "rolls"),
    ],
)  # fmt: skip
def test_nothing_is_told_that_rests_on_a_field_left_out(manifest: Manifest, path: str) -> None:
    assert [each.partition(":")[0] for each in problems(manifest)] == [path]


def found(manifest: Manifest) -> list[Finding]:
    return errors(checked(examine(manifest))[1])


def fields(manifest: Manifest) -> list[Path]:
    """The fields of the API, without those of the pod templates' objects."""
    return [
        each
        for each in places(manifest)
        if len(each) > 1
        and each[0] in ("metadata", "spec")
        and not any("emplate" in str(part) for part in each[:-1])
    ]


@st.composite
def slips(draw: st.DrawFn) -> tuple[Manifest, Manifest, Path]:
    """A service, of which an argument may be wrong, and the same with a refused field."""
    manifest: Manifest = json.loads(json.dumps(draw(services(extras=True))))
    if draw(st.booleans()):
        arguments = [each for each in places(manifest) if each[-1] == "args"]
        for at in arguments:
            manifest = changed(manifest, at, [*_value(manifest, at), "--tensor-parallel-size=64"])
    at = draw(st.sampled_from(fields(manifest)))
    junk: Any = draw(st.sampled_from(([[1]], {"x y": 1}, "x y")))
    return manifest, changed(manifest, at, junk), at


def _value(manifest: Any, at: Path) -> Any:
    for part in at:
        manifest = manifest[part]
    return manifest


@given(slips())
@examples(1)
def test_beside_a_refused_field_only_errors_of_the_whole_are_told(
    slip: tuple[Manifest, Manifest, Path],
) -> None:
    manifest, broken, at = slip
    assume(examine(manifest).args is not None)
    field = at[1:] if at[0] == "spec" else at
    before = set(found(manifest))
    told = found(broken)
    assume(examine(broken).args is None)
    for each in told:
        there = each.location[: len(field)] == field[: len(each.location)]
        assert there or each in before, each
