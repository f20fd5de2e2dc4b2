"""What API validation refuses of a pod is an error at the user's field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from refused_pods import REFUSED, TAKEN, Fields
from samples import container, problems, role, service, template

from fusioninfer_pulumi.findings import path_text
from fusioninfer_pulumi.pods import validation
from fusioninfer_pulumi.pods.validation.template import Owner, template_findings

FOLDER = Path(validation.__file__).parent


@pytest.mark.parametrize(("rule", "given", "at"), REFUSED)
def test_each_rule_refuses_at_the_field(rule: str, given: Fields, at: str) -> None:
    found = [(each.rule, path_text(each.location)) for each in template_findings(given)]
    assert found == [(rule, at)]


@pytest.mark.parametrize("given", TAKEN)
def test_what_is_unusual_and_right_is_taken(given: Fields) -> None:
    assert list(template_findings(given)) == []


def test_each_rule_has_a_case() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    rules = set(re.findall(r'(?:error|exactly_one)\(\s*"([a-z-]+)"', text))
    assert len(rules) > 80
    assert rules - {rule for rule, _, _ in REFUSED} == set()


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
    "claim-sources-not-one", "claims-of-pod-resources",
    "devices-without-host-users", "disk-names-not-one", "env-sources-not-one",
    "ephemeral-container", "field-required", "file-sources-not-one", "grace-period-of-readiness",
    "hook-handlers-not-one", "huge-pages-alone", "invalid-label-key", "invalid-page-size",
    "label-keys-without-selector", "limit-missing", "mirror-pod", "node-terms-missing",
    "overhead-without-runtime-class", "pod-deadline", "probe-handlers-not-one",
    "probe-of-init-container", "profile-of-no-container", "projected-sources-several",
    "too-long", "toleration-without-key", "unknown-pod-resource", "unknown-resource",
    "values-missing", "variable-sources-not-one", "volume-sources-several",
}  # fmt: skip


@pytest.mark.parametrize("given", [given for _, given, _ in REFUSED])
def test_what_is_not_known_is_never_refused(given: Fields) -> None:
    found = {each.rule for each in template_findings(outputs(given))}
    assert found <= PRESENCE


def test_a_deployment_names_its_hosts_and_a_job_ends() -> None:
    held: Fields = {"spec": {"hostname": "A", "activeDeadlineSeconds": 5, "containers": []}}
    told = {owner: [each.rule for each in template_findings(held, owner)] for owner in Owner}
    assert told == {
        Owner.STATEFUL_SET: ["pod-deadline"],
        Owner.DEPLOYMENT: ["pod-deadline", "invalid-format"],
        Owner.JOB: ["invalid-format"],
    }


POD = "roles[0].template.spec"


def test_findings_stand_where_the_user_wrote() -> None:
    # The container that users write second is the one that the library changes.
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    idle = {"args": None, "image": "example.com/idle:1", "command": ["sleep", "9"]}
    beside = container("beside", livenessProbe={"periodSeconds": 5}, **idle)
    given = role(
        template=template(beside, container(), topologySpreadConstraints=[spread]),
        topologySpread=[{"topologyKey": "zone"}],
        multinode={"nodeCount": 2},
    )
    assert problems(service(given)) == [
        f"{POD}.containers[0].livenessProbe: needs one handler: exec, httpGet, tcpSocket, grpc",
        "roles[0].topologySpread[0]: zone with ScheduleAnyway is there already; remove one of them",
    ]


def test_findings_about_a_role_that_is_refused_otherwise_are_told_too() -> None:
    wrong = container(resources={"limits": {"cpus": "1"}}, imagePullPolicy=7)
    assert problems(service(role(template=template(wrong)))) == [
        f"{POD}.containers[0].imagePullPolicy: must be a string, got 7; quote it in YAML",
        (
            f'{POD}.containers[0].resources.limits.cpus: "cpus" is no resource of a container; did '
            "you mean cpu?"
        ),
    ]


def test_findings_about_the_picker_stand_in_its_overrides() -> None:
    router = role(
        "router", "router", template=None, httproute={"parentRefs": [{"name": "g"}]},
        endpointPicker={
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            "template": {"spec": {"containers": [
                {"name": "logs", "image": "a:1", "env": [{"name": "A", "valueFrom": {}}]}]}},
        },
    )  # fmt: skip
    assert sorted(each.partition(":")[0] for each in problems(service(role(), router))) == [
        "roles[1].endpointPicker.resources.requests.cpu",
        "roles[1].endpointPicker.template.spec.containers[0].env[0].valueFrom",
    ]


def test_findings_about_containers_of_the_library_stand_at_their_fields() -> None:
    model = {"uri": "s3://bucket/model", "fetcher": {"resources": {"limits": {"gpu": "1"}}}}
    made = role(template=template(container(args=["--port=8000"])))
    told = problems(service(made, model=model))
    assert [each.partition(":")[0] for each in told] == ["model.fetcher.resources.limits.gpu"]
