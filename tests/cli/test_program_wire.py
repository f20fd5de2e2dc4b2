"""Messages of a program's process to its parent omit only the values of Outputs."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from profiles import examples
from pulumi import Output
from samples import role
from strategies import plans

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.cli.program.child_process import _reduce_output
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput, is_output
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan


def sent(value: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(copyreg.dispatch_table, Output, _reduce_output)
        return pickle.loads(pickle.dumps(value))  # our own


@examples(2)
@given(plans() | plans(routed=True))
def test_plan_sent_between_processes_renders_the_same_objects(plan: ServicePlan) -> None:
    there = sent(plan)
    assert there.findings == plan.findings
    assert list(render(there)) == list(render(plan))


def test_output_with_known_text_is_sent_as_text(output: Callable[[Any], Any]) -> None:
    assert sent([output("a"), output({"a": 1})])[0] == "a"


def test_secret_output_keeps_its_identity(output: Callable[..., Any]) -> None:
    shared, other = output("a", secret=True), output("a", secret=True)
    labels = {"one": shared, "two": shared, "three": other}
    args = InferenceServiceArgs.model_validate({"name": "svc", "labels": labels, "roles": [role()]})
    read = sent(args).labels
    assert all(isinstance(value, UnknownOutput) for value in read.values())
    assert all(is_output(value) for value in read.values())
    assert read["one"] is read["two"]
    assert read["one"] != read["three"]
