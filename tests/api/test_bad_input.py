"""Rejected input: all findings of a document, one line each."""

from __future__ import annotations

import time
from typing import Any

import pulumi
import pytest
from rows import each_row
from samples import container, plan_manifest, problems, role, service, template

from fusioninfer_pulumi.api import ComponentType, InferenceServiceArgs, RoleArgs
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity, quote_value
from fusioninfer_pulumi.loading import load, loads
from fusioninfer_pulumi.presets.model_service import model_service

POD = "roles[0].template.spec"
SERVING = f"{POD}.containers[0]"
EXCLUSIVE = (
    "roles[0].strategy: belongs to a role of componentType router (this role is a worker); "
    "remove it"
)
KEYS = ", ".join(sorted(field.alias or name for name, field in RoleArgs.model_fields.items()))


WHOLE = {"apiVersion": "fusioninfer.io/v1alpha1", "kind": "InferenceService"}


@each_row(
    ("manifest", "expected"),
    [
        ([1], ["must be a mapping, got [1]"]),
        ("text", ['must be a mapping, got "text"']),
        ({**service(), "kind": "Deployment"}, ['kind: must be InferenceService, got "Deployment"']),
        (
            {**service(), "apiVersion": "v1"},
            ['apiVersion: must be fusioninfer.io/v1alpha1, got "v1"'],
        ),
        (
            {"metadata": {}},
            [
                "apiVersion: is required, must be fusioninfer.io/v1alpha1",
                "kind: is required, must be InferenceService",
            ],
        ),
        ({**WHOLE, "spec": {"roles": [role()]}}, ["metadata: is required"]),
        ({**WHOLE, "metadata": {"name": "a"}}, ["spec: is required"]),
        (
            {**WHOLE, "metadata": {"name": "a"}, "spec": {"roles": None}},
            ["roles: must be a list, got null"],
        ),
        (
            {**service(role(strategy="queue-size")), "metadata": 5},
            ["metadata: must be a mapping, got 5", EXCLUSIVE],
        ),
        (
            {**service(), "status": {}},
            ["status: unknown key; allowed: apiVersion, kind, metadata, spec"],
        ),
        ({**service(), "layout": "PerRole"}, ["layout: unknown key, did you mean spec.layout?"]),
        (
            {**service(), "spec": {**service()["spec"], "kind": "x"}},
            ["kind: unknown key here; it is a field of the document"],
        ),
        ({**service(), 1: {}}, ["[1]: keys must be strings, got 1"]),
        (service(role(zebra=2)), [f"roles[0].zebra: unknown key; allowed: {KEYS}"]),
    ],
)
def test_document_of_other_kind_is_rejected(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


def test_findings_of_all_documents_are_raised_in_one_error() -> None:
    with pytest.raises(InvalidServiceError) as caught:
        loads(
            "{apiVersion: fusioninfer.io/v1alpha1, kind: InferenceService, metadata: {name: a}, "
            "spec: {roles: 1}}\n---\n{apiVersion: v1, kind: Pod}\n"
        )
    assert str(caught.value).splitlines() == [
        "roles: must be a list, got 1 [wrong-type]",
        '#2: apiVersion: must be fusioninfer.io/v1alpha1, got "v1" [wrong-kind]',
        '#2: kind: must be InferenceService, got "Pod" [wrong-kind]',
    ]
    assert len(caught.value.findings) == 3


def test_invalid_mapping_is_rejected_like_a_file() -> None:
    with pytest.raises(InvalidServiceError, match=r"^roles\[0\]\.replicas: must be at least 0"):
        load(service(role(replicas=-1)))


def test_constructor_error_has_one_line_per_finding() -> None:
    with pytest.raises(InvalidServiceError) as rejected:
        RoleArgs(name="serve", component_type=ComponentType.WORKER, replica=3, replicas="2")
    assert str(rejected.value).splitlines() == [
        'RoleArgs: replicas: must be an integer, got "2" [wrong-type]',
        "RoleArgs: replica: unknown key, did you mean replicas? [unknown-key]",
    ]


@pytest.mark.parametrize(
    "construct",
    [
        lambda: InferenceServiceArgs(roles=[]),
        lambda: model_service("Qwen/Qwen3-8B", accelerator="H100", replica=2),  # type: ignore[call-arg]  # the mistake
        lambda: load({"kind": "Pod"}),
    ],
)
def test_error_in_program_has_no_traceback_and_names_the_rule(construct: Any) -> None:
    # Pulumi prints the text of a RunError, and a traceback of anything else.
    with pytest.raises(pulumi.RunError) as raised:
        construct()
    assert isinstance(raised.value, InvalidServiceError)
    assert str(raised.value).endswith(f"[{raised.value.findings[-1].rule}]")


def test_constructor_error_names_the_nested_field() -> None:
    role = RoleArgs(name="serve", component_type=ComponentType.WORKER, template={"spec": {}})
    with pytest.raises(InvalidServiceError, match=r"^InferenceServiceArgs: roles\[0\]\.template"):
        InferenceServiceArgs(roles=[role])


#: Only the plan shows that such a pod has too few accelerators.
SPLIT = template(container(gpus=1, args=["--model", "m", "--tensor-parallel-size", "4"]))


@each_row("raw", [[], None, {"spec": 5}, {"spec": {"roles": 5, "model": 5}}])
def test_malformed_service_is_not_planned(raw: Any) -> None:
    manifest = {**service(role()), **raw} if isinstance(raw, dict) else raw
    plan, findings = plan_manifest(manifest)
    assert plan is None
    assert findings


def test_service_with_conflicting_fields_is_not_planned() -> None:
    plan, findings = plan_manifest(service(role(template=SPLIT, strategy="queue-size")))
    assert plan is None
    assert [str(finding) for finding in findings] == [EXCLUSIVE]


COMMAND = "x\n::error::injected \x1b[31m"
ESCAPED = "x\\n::error::injected \\x1b[31m"


def test_finding_escapes_control_characters() -> None:
    expected = Finding("lines", Severity.ERROR, ("a", COMMAND), f"got {COMMAND}")
    assert (str(expected), expected.message) == (f"a[{ESCAPED}]: got {ESCAPED}", f"got {ESCAPED}")
    rejected = str(InvalidServiceError([Finding("lines", Severity.ERROR, (), COMMAND)], COMMAND))
    assert rejected == f"{ESCAPED}: {ESCAPED} [lines]"


def test_lone_surrogate_is_escaped() -> None:
    assert quote_value("\ud800") == '"\\ud800"'


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (service(*[role()] * 1001), "roles: must contain at most 1000 items, got 1001"),
        (
            service(role(template=template(container(args=["x"] * 10_001)))),
            f"{SERVING}.args: must have at most 10000 items, got 10001",
        ),
        (
            service(role(autoscaling={"maxReplicas": 2, "metrics": [
                {"name": "a", "query": "{" * 40_000, "target": 1}]})),
            "roles[0].autoscaling.metrics[0].query: must have at most 10000 characters, got 40000",
        ),
    ],
    ids=["roles", "arguments", "query"],
)  # fmt: skip
def test_absurd_amounts_are_rejected_quickly(manifest: Any, message: str) -> None:
    start = time.process_time()
    assert message in problems(manifest)
    assert time.process_time() - start < 2
