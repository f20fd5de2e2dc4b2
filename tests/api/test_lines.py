"""One line for each problem, whatever stands in the input; nothing of it colours or commands."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, pod, problems, role, service, template

from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity, shown

COMMAND = "x\n::error::injected \x1b[31m"
ESCAPED = "x\\n::error::injected \\x1b[31m"


def test_a_finding_is_one_line() -> None:
    told = Finding("lines", Severity.ERROR, ("a", COMMAND), f"got {COMMAND}")
    assert (str(told), told.message) == (f"a[{ESCAPED}]: got {ESCAPED}", f"got {ESCAPED}")
    refused = str(InvalidServiceError([Finding("lines", Severity.ERROR, (), COMMAND)], COMMAND))
    assert refused == f"{ESCAPED}: {ESCAPED}"


def test_half_of_a_surrogate_pair_is_shown_escaped() -> None:
    assert shown("\ud800") == '"\\ud800"'


def test_an_argument_of_several_lines_is_quoted_in_one() -> None:
    given = template(container(args=["--model", COMMAND]))
    told = problems(service(role(template=given), model={"uri": "pvc://a/b"}))
    assert [line for line in told if f"{ESCAPED} conflicts with model.uri" in line]
    assert all(line.isprintable() for line in told)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"labels": {"a b": "c", "k": "ü", "n": 1}},
         ['labels: "a b" is no valid Kubernetes label or annotation key',
          'labels: k: "ü" is no valid label value (at most 63 of A-Z a-z 0-9 - _ .)',
          "labels: n: must be a string, got 1"]),
        ({"annotations": {"a b": "c", "d e": "f"}},
         ['annotations: "a b" is no valid Kubernetes label or annotation key',
          'annotations: "d e" is no valid Kubernetes label or annotation key']),
    ],
)  # fmt: skip
def test_all_that_is_wrong_with_a_map_is_told(metadata: Any, said: list[str]) -> None:
    assert problems(service(metadata=metadata)) == [f"metadata.{each}" for each in said]


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (service(schedulingStrategy={"queue": "x y", "schedulerName": " "}),
         ['schedulingStrategy.schedulerName: must be the name of a scheduler, got " "',
          ("schedulingStrategy.queue: must be a name of at most 253 of a-z, 0-9, - and . that "
           'starts and ends with a letter or digit, got "x y"')]),
        (service(role(topologySpread=[{"topologyKey": "bad key!"}])),
         [('roles[0].topologySpread[0].topologyKey: "bad key!" is no valid Kubernetes label or '
           "annotation key")]),
        (service(role("r", "router", template=None, strategy="pd-disaggregation",
                      endpointPicker={"threshold": 10**400})),
         [f"roles[0].endpointPicker.threshold: must be at most 2147483647, got 1{'0' * 78}…"]),
        (service(prefillDecodeRatio={"min": 0}),
         ["prefillDecodeRatio.min: must be above 0, got 0"]),
    ],
)  # fmt: skip
def test_limits_are_told(manifest: Any, said: list[str]) -> None:
    assert set(said) <= set(problems(manifest))


def test_a_pod_is_judged_with_its_neighbours() -> None:
    assert problems(pod(container(), volumes={})) == [
        "roles[0].template.spec.volumes: must be a list, got {}"
    ]
