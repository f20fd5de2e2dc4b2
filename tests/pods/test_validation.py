"""What API validation refuses of a pod is an error at the user's field."""

from __future__ import annotations

from typing import Any

import pytest
from refused_pods import REFUSED, REFUSED_BY_SERVER, TAKEN, Fields
from samples import container, problems, role, service, template

from fusioninfer_pulumi.checks.pods.template import Owner, check_template
from fusioninfer_pulumi.findings import format_path


@pytest.mark.parametrize(("rule", "given", "at"), REFUSED)
def test_rule_is_reported_at_the_field(rule: str, given: Fields, at: str) -> None:
    found = [(finding.rule, format_path(finding.location)) for finding in check_template(given)]
    assert found == [(rule, at)]


@pytest.mark.parametrize("given", TAKEN)
def test_unusual_valid_fields_are_accepted(given: Fields) -> None:
    assert list(check_template(given)) == []


@pytest.mark.parametrize("given", [given for given, _ in REFUSED_BY_SERVER])
def test_rest_is_left_to_the_server(given: Fields) -> None:
    assert list(check_template(given)) == []


class Output:
    """Stands in for a value that is not known yet."""


Output.__module__ = "pulumi"


def outputs(value: Any) -> Any:
    """A copy in which an Output stands for each value that is no mapping or list."""
    if isinstance(value, dict):
        return {key: outputs(item) for key, item in value.items()}
    return [outputs(item) for item in value] if isinstance(value, list) else Output()


#: Rules about which fields and keys there are, whatever their values.
PRESENCE = {
    "field-required", "requests-and-limits", "sources-not-one", "unknown-resource",
}  # fmt: skip


@pytest.mark.parametrize("given", [given for _, given, _ in REFUSED])
def test_unknown_program_is_never_rejected(given: Fields) -> None:
    found = {finding.rule for finding in check_template(outputs(given))}
    assert found <= PRESENCE


def test_job_ends() -> None:
    given: Fields = {"spec": {"restartPolicy": "Never", "containers": []}}
    told = {owner: [finding.rule for finding in check_template(given, owner)] for owner in Owner}
    assert told == {
        Owner.STATEFUL_SET: ["unknown-value"],
        Owner.DEPLOYMENT: ["unknown-value"],
        Owner.JOB: [],
    }


POD = "roles[0].template.spec"


def test_findings_name_user_fields() -> None:
    # The container that users write second is the one that the library changes.
    idle = {"args": None, "image": "example.com/idle:1", "command": ["sleep", "9"]}
    beside = container("beside", livenessProbe={"periodSeconds": 5}, **idle)
    given = role(
        template=template(beside, container()),
        multinode={"nodeCount": 2},
    )
    assert problems(service(given)) == [
        f"{POD}.containers[0].livenessProbe: needs one handler: exec, httpGet, tcpSocket, grpc",
    ]


def test_findings_about_the_picker_name_its_template() -> None:
    router = role(
        "router", "router", template=None, httproute={"parentRefs": [{"name": "g"}]},
        endpointPicker={
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            "template": {"spec": {"containers": [
                {"name": "logs", "image": "a:1", "env": [{"name": "A", "valueFrom": {}}]}]}},
        },
    )  # fmt: skip
    assert sorted(problem.partition(":")[0] for problem in problems(service(role(), router))) == [
        "roles[1].endpointPicker.resources.requests.cpu",
        "roles[1].endpointPicker.template.spec.containers[0].env[0].valueFrom",
    ]


def test_findings_about_generated_containers_point_at_their_fields() -> None:
    model = {"uri": "s3://bucket/model", "fetcher": {"resources": {"limits": {"gpu": "1"}}}}
    made = role(template=template(container(args=["--port=8000"])))
    told = problems(service(made, model=model))
    assert [each.partition(":")[0] for each in told] == ["model.fetcher.resources.limits.gpu"]
