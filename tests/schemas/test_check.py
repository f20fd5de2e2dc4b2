"""Values that violate Kubernetes' schemas are reported with their field and its type."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kubernetes import client
from rows import each_row
from samples import container, pod, rendered, role, service

from fusioninfer_pulumi.schemas.kind_schema import (
    CONTAINER,
    GATEWAY,
    HTTP_ROUTE,
    POD_TEMPLATE,
    Part,
    kind_schema,
    part_schema,
)
from fusioninfer_pulumi.schemas.schema_check import normalize_part, object_findings, part_findings


def list_findings(value: Any, part: Part) -> list[str]:
    return [str(finding) for finding in part_findings(("x",), value, part)]


#: Models of the official client, which may be newer or older than the schemas.
MODELS = {
    "V1PodSpec": (),
    "V1Container": ("containers", 0),
    "V1EnvVar": ("containers", 0, "env", 0),
    "V1ContainerPort": ("containers", 0, "ports", 0),
    "V1VolumeMount": ("containers", 0, "volumeMounts", 0),
    "V1Probe": ("containers", 0, "readinessProbe"),
    "V1Lifecycle": ("containers", 0, "lifecycle"),
    "V1SecurityContext": ("containers", 0, "securityContext"),
    "V1PodSecurityContext": ("securityContext",),
    "V1Volume": ("volumes", 0),
    "V1Toleration": ("tolerations", 0),
    "V1Affinity": ("affinity",),
    "V1TopologySpreadConstraint": ("topologySpreadConstraints", 0),
}


@pytest.mark.parametrize("model", MODELS)
def test_every_field_that_the_official_client_knows_is_known(model: str) -> None:
    part = POD_TEMPLATE.below("spec", *MODELS[model])
    known = set(part_schema(part).find(part.path)["properties"])
    # Only in Kubernetes 1.35 or after 1.36, so no supported LeaderWorkerSet has these fields.
    other = {"bindMountOptions", "evictionResponders", "workloadRef"}
    assert set(getattr(client, model).attribute_map.values()) <= known | other


@each_row(
    ("value", "part", "expected"),
    [
        ({"hostnames": ["a b"]}, HTTP_ROUTE,
         [('x.hostnames[0]: must be a host name such as api.example.com or *.example.com, without '
          'scheme and port, got "a b"')]),
        ({"rules": [{"matches": [{"path": {"type": "Prefix"}}]}]}, HTTP_ROUTE,
         [("x.rules[0].matches[0].path.type: must be one of Exact, PathPrefix, RegularExpression, "
          'got "Prefix"')]),
        ({"rules": [{"matches": [{"headers": [{"name": "a", "value": "1"},
                                              {"name": "a", "value": "2"}]}]}]}, HTTP_ROUTE,
         [('x.rules[0].matches[0].headers[1]: has the same name "a" as headers[0]; remove one of '
           'them')]),
        ({"parentRefs": [{"name": "g"}] * 33}, HTTP_ROUTE,
         ["x.parentRefs: must have at most 32 items, got 33"]),
        ({"gatewayClassName": "", "listeners": []}, GATEWAY,
         ["x.gatewayClassName: must not be empty", "x.listeners: must not be empty"]),
        ([{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"},
          {"containerPort": 1, "protocol": "TCP"}], CONTAINER.below("ports"),
         ['x[2]: has the same containerPort 1 and protocol "TCP" as ports[0]; remove one of them']),
        ({"accessModes": 1}, POD_TEMPLATE.below(
            "spec", "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec"),
         ["x.accessModes: must be a list of strings, got 1"]),
    ],
)  # fmt: skip
def test_invalid_part_is_reported(value: Any, part: Part, expected: list[str]) -> None:
    assert list_findings(value, part) == expected


def test_output_is_valid_in_any_field(output: Any) -> None:
    value = {
        "metadata": {"annotations": {"a": output("x")}},
        "spec": {
            "containers": [
                {"name": output("x"), "image": output("x"), "env": [
                    {"name": output("x")}, {"name": output("x")}, {"name": "A", "value": output(1)},
                ]},
            ],
            "hostNetwork": output(True),
            "affinity": output({}),
            "terminationGracePeriodSeconds": output(1),
            "overhead": {"cpu": output("1")},
        },
    }  # fmt: skip
    assert list_findings(value, POD_TEMPLATE) == []


def test_message_shows_type_of_value_that_contains_output(output: Any) -> None:
    value = {"spec": {"containers": {"a": output("x")}}}
    (finding,) = list_findings(value, POD_TEMPLATE)
    assert finding == "x.spec.containers: must be a list, got a dict"


def test_values_of_lws_fields_have_the_schemas_types() -> None:
    value = pod(
        container(resources={"limits": {"cpu": 0.5, "memory": 2e9, "nvidia.com/gpu": 1}}),
        overhead={"cpu": 0.25},
        runtimeClassName="kata",
        volumes=[{"name": "a", "emptyDir": {"sizeLimit": 1e9}, "csi": None}],
        priorityClassName=None,
    )
    (lws,) = [manifest for manifest in rendered(value) if manifest["kind"] == "LeaderWorkerSet"]
    spec = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {
        "cpu": "0.5", "memory": 2000000000, "nvidia.com/gpu": 1,
    }  # fmt: skip
    assert spec["overhead"] == {"cpu": "0.25"}
    assert spec["volumes"] == [{"name": "a", "emptyDir": {"sizeLimit": 1000000000}}]
    assert "priorityClassName" not in spec


def test_only_null_fields_are_omitted() -> None:
    value = {"metadata": {"labels": {"a": None}}, "spec": {"containers": [None], "nodeName": None}}
    assert normalize_part(value, POD_TEMPLATE) == {
        "metadata": {"labels": {"a": None}}, "spec": {"containers": [None]},
    }  # fmt: skip


def test_duplicate_port_in_rendered_object_is_reported() -> None:
    (item,) = [
        manifest for manifest in rendered(service(role())) if manifest["kind"] == "LeaderWorkerSet"
    ]
    twice = copy.deepcopy(item)
    (serving,) = twice["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    serving["ports"] = [{"containerPort": 5600}, {"containerPort": 5600}]
    assert object_findings(item) == []
    assert [finding.rule for finding in object_findings(twice)] == ["duplicate-name"]


def test_object_without_schema_is_not_checked() -> None:
    assert object_findings({"apiVersion": "example.com/v1", "kind": "Any", "x": 1}) == []
    assert kind_schema("example.com/v1", "Any") is None
