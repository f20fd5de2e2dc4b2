"""Modelplane's ModelDeployments become services, or are rejected field by field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from rows import each_row

from importers.tests.modelplane_samples import (
    GPU,
    Manifest,
    completed,
    deployment,
    engine,
    member,
    paired,
    proposed,
    released,
    template,
    workers,
)
from importers.tests.reads import check, convert, read_source, reject, to_spec, warn

CLAIM = {
    "name": "gpu",
    "deviceClassName": "gpu.nvidia.com",
    "count": 1,
    "selectors": ['device.driver == "gpu.nvidia.com"'],
}


GANG_ENV = [
    {"name": "MODELPLANE_LEADER_ADDRESS", "value": "$(LWS_LEADER_ADDRESS)"},
    {"name": "MODELPLANE_RANK", "value": "$(LWS_WORKER_INDEX)"},
]


def rejected(document: Manifest) -> list[str]:
    """Return why a document is rejected even if all losses are allowed."""
    return reject(document, lossy=True)


def test_documented_deployment_is_converted() -> None:
    """The document elides the image, the model and the node selector."""
    result = to_spec(proposed(model={}))
    assert result == {
        "roles": [
            {
                "name": "prefill",
                "componentType": "prefiller",
                "replicas": 1,
                "kvTransfer": {},
                "template": completed(template()),
                "parallelism": {"tensor": 1},
            },
            {
                "name": "decode",
                "componentType": "decoder",
                "replicas": 2,
                "kvTransfer": {},
                "template": completed(template()),
                "parallelism": {"tensor": 1},
            },
            {"name": "router", "componentType": "router"},
        ],
        "schedulingStrategy": {"gangPolicy": {"mode": "Off"}},
    }
    assert "f: info: model: has no effect; the engine's arguments name the model" in check(
        proposed(model={})
    )


def test_deployment_without_name_is_rejected() -> None:
    assert "f: metadata.name: is required" in reject(deployment(proposed()["spec"], name=None))


def test_engines_become_roles_and_members_become_templates() -> None:
    fields = {"name": "HOST", "value": "$(MODELPLANE_LEADER_ADDRESS)"}
    leader = member("Leader", nodeSelector=None, template=template(command=["a"], env=[fields]))
    worker = member("Worker", worker={"nodes": 3}, template=template(command=["b"]))
    result = to_spec(released(engine("big", leader, worker, copies=2), engine("small")), lossy=True)
    big, small = result["roles"]
    assert (big["name"], big["replicas"]) == ("big", 2)
    assert big["multinode"] == {"nodeCount": 4, "launcher": "none"}
    (container,) = big["leaderTemplate"]["spec"]["containers"]
    assert (container["command"], container["env"]) == (["a"], [*GANG_ENV, fields])
    assert big["workerTemplate"]["spec"]["containers"][0]["env"] == GANG_ENV
    assert small == {
        "name": "small",
        "componentType": "worker",
        "template": completed(template()),
        "resourceClaims": [CLAIM],
    }


def test_pods_get_shared_memory_and_serving_pods_a_probe() -> None:
    leader = member("Leader", template=template("--port=9000"))
    worker = member("Worker", template=template())
    (role,) = to_spec(released(engine("e", leader, worker)))["roles"]
    for key, wanted in (
        ("leaderTemplate", completed(template("--port=9000"), 9000)),
        ("workerTemplate", completed(template(), serves=False)),
    ):
        (container,) = wanted["spec"]["containers"]
        container["env"] = GANG_ENV
        assert role[key] == wanted
    user_completed = completed(template(readinessProbe={"tcpSocket": {"port": 8000}}))
    user_completed["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8000}}
    assert (
        to_spec(released(engine("e", member(template=user_completed))))["roles"][0]["template"]
        == user_completed
    )


def test_threshold_keeps_short_prompts_from_prefill_pods() -> None:
    """As in Modelplane's picker: from 16 tokens without a cached prefix on."""
    read = read_source(paired(), allow_lossy=True)
    (config,) = [manifest for manifest in read.render() if manifest["kind"] == "ConfigMap"]
    (text,) = config["data"].values()
    plugins = {
        plugin["type"]: plugin.get("parameters") for plugin in yaml.safe_load(text)["plugins"]
    }
    assert plugins["prefix-based-pd-decider"] == {"nonCachedTokens": 16}
    assert plugins["disagg-profile-handler"] == {"deciders": {"prefill": "prefix-based-pd-decider"}}


def test_pools_are_not_pinned() -> None:
    assert any(
        "f: info: template.spec.engines: pods are not pinned to a node pool (m" in message
        for message in check(released())
    )


@pytest.mark.parametrize("metadata", [{"labels": 7}, {"labels": [7]}, {"labels": {7: 7}}])
def test_malformed_labels_are_rejected(metadata: Any) -> None:
    wrong = {**template(), "metadata": metadata}
    (finding, *_) = rejected(proposed(workers=workers(template=wrong)))
    assert finding.startswith("f: workers.template.metadata.labels")


def test_devices_become_claims() -> None:
    assert to_spec(released())["roles"][0]["resourceClaims"] == [CLAIM]
    gang = released(engine("e", member("Leader"), member("Worker")))
    assert to_spec(gang)["roles"][0]["resourceClaims"] == [CLAIM]
    result = to_spec(
        proposed(nodeSelector=GPU, prefill={"workers": workers(), "nodeSelector": GPU})
    )
    assert [role.get("resourceClaims") for role in result["roles"]] == [[CLAIM], [CLAIM], None]
    assert not any("Volcano" in line for line in warn(gang))


def test_modelplane_pods_are_gang_scheduled_only_with_volcano() -> None:
    def gang(**spec_of_pods: Any) -> Manifest:
        parts = [member(role, template=template()) for role in ("Leader", "Worker")]
        for part in parts:
            part["template"]["spec"].update(spec_of_pods)
        return released(engine("e", *parts))

    assert to_spec(gang())["schedulingStrategy"] == {"gangPolicy": {"mode": "Off"}}
    assert any(
        line.startswith("f: info: template.spec.engines: not set; pods are scheduled one by one")
        for line in check(gang())
    )
    volcano = gang(schedulerName="volcano")
    assert "schedulingStrategy" not in to_spec(volcano)
    assert any("template.spec.engines[0]: Volcano binds" in line for line in warn(volcano))
    # A single pod needs no gang.
    assert "schedulingStrategy" not in to_spec(released())


@pytest.mark.parametrize(
    ("cel", "drivers"),
    [("true", "none"), ('device.driver == "a" || device.capacity["b"].memory > 1', "a and b")],
)
def test_expressions_without_driver_are_rejected(cel: str, drivers: str) -> None:
    devices = {"devices": [{"name": "gpu", "selectors": [{"cel": cel}]}]}
    (lost,) = reject(released(engine("e", member(nodeSelector=devices))))
    assert lost == (
        "f: template.spec.engines[0].members[0].nodeSelector.devices[0]: cannot be carried over: "
        "its expressions must name one driver, which stands for the DeviceClass, got "
        f'{drivers}; add device.driver == "NAME"'
    )


def test_findings_about_variables_name_source_index() -> None:
    wrong = member("Leader", nodeSelector=None, template=template(env=[{"name": "A", "value": 1}]))
    document = released(engine("e", wrong, member("Worker")))
    assert rejected(document) == [
        (
            "f: template.spec.engines[0].members[0].template.spec.containers[0].env[0].value: must "
            "be a "
            "string, got 1; quote it in YAML"
        )
    ]


def test_phases_become_prefill_and_decode_with_a_router() -> None:
    prefill, decode, router = to_spec(paired(), lossy=True)["roles"]
    assert (prefill["componentType"], prefill["replicas"]) == ("prefiller", 1)
    assert (decode["componentType"], decode["replicas"]) == ("decoder", 2)
    # Modelplane's routing.py: "this layer injects none" of the engine flags.
    assert prefill["kvTransfer"] == decode["kvTransfer"] == {"enabled": False}
    assert router == {
        "name": "router",
        "componentType": "router",
        "scorers": {"prefix-cache": 2, "queue": 1},
        "endpointPicker": {"threshold": 64},
    }


def test_default_copies_are_reported() -> None:
    document = paired(prefill={"copies": None})
    del document["spec"]["template"]["spec"]["engines"][0]["copies"]
    assert (
        "f: info: template.spec.engines[0].copies: not set; assuming 1, which also sets the "
        "share of prefill"
    ) in check(document)


def test_instances_are_serving_groups() -> None:
    result = to_spec(released(engine(copies=2), replicas=3), lossy=True)
    assert (result["groups"], result["roles"][0]["replicas"]) == (3, 2)
    early = deployment({"replicas": 3, "engines": [engine(copies=2)]})
    assert to_spec(early, lossy=True) == result
    assert to_spec(paired(replicas=2), lossy=True)["groups"] == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        (
            {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0", "args": ["--v=5"]},
            {
                "endpointPicker": {
                    "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
                    "args": ["--v=5"],
                }
            },
        ),
        (
            {"env": [{"name": "A", "value": "b"}]},
            {
                "endpointPicker": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "epp", "env": [{"name": "A", "value": "b"}]}]
                        }
                    }
                }
            },
        ),
    ],
)
def test_routing_becomes_the_endpoint_picker(fields: Any, expected: Manifest) -> None:
    routing = {"template": {"spec": {"containers": [{"name": "epp", **fields}]}}}
    assert to_spec(proposed(routing=routing))["roles"][2] == {
        "name": "router",
        "componentType": "router",
        **expected,
    }


def test_topology_becomes_parallelism_unless_container_has_a_command() -> None:
    topology = {"tensor": 8, "pipeline": 2}
    (role,) = to_spec(proposed(prefill=None, routing=None, workers=workers(topology=topology)))[
        "roles"
    ]
    assert role["parallelism"] == topology
    assert "multinode" not in role
    alone = workers(topology=topology, template=template(command=["./start.sh"]))
    (role,) = to_spec(proposed(prefill=None, routing=None, workers=alone))["roles"]
    assert "parallelism" not in role
    assert role["multinode"] == {"nodeCount": 2, "launcher": "none"}


def test_template_labels_become_service_labels() -> None:
    labels = {"team": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"engines": [engine()]}}
    (item,) = convert(deployment({"replicas": 1, "template": template}))
    assert item["metadata"]["labels"] == labels


DEVICES = "cannot be carried over: all members of a role must have the same claims"


@each_row(
    ("document", "expected"),
    [
        (
            proposed(workers=workers(None)),
            "f: workers.count: is required with prefill, because the ratio of prefill to ",
        ),
        (
            proposed(prefill={"workers": workers(None)}),
            "f: prefill.workers.count: is required with prefill, because the ratio of prefill to ",
        ),
        (
            proposed(routing=None),
            "f: routing: is required with prefill, because an endpoint picker pairs prefill and ",
        ),
        (
            proposed(prefill=None, routing=None, workers=workers(template={"spec": {}})),
            "f: workers.template.spec.containers: must be one container named engine, got []",
        ),
        (
            released(engine(phase="Decode")),
            "f: template.spec.engines[0].phase: needs serving.mode PrefillDecode",
        ),
        (
            released(engine(phase="Decode"), serving={"mode": "PrefillDecode"}),
            (
                "f: template.spec.engines: serving.mode PrefillDecode needs two engines, one of "
                "phase "
                "Prefill and one of phase Decode, got 1"
            ),
        ),
        (
            released(
                engine("a", phase="Decode"),
                engine("b", phase="Decode"),
                serving={"mode": "PrefillDecode"},
            ),
            "f: template.spec.engines: serving.mode PrefillDecode needs an engine of phase Prefill",
        ),
        (
            released(engine("a", member("Leader"))),
            (
                "f: template.spec.engines[0].members: must be one Standalone member, or a Leader "
                "and a "
                "Worker, got Leader"
            ),
        ),
        (
            released(engine("a", member(nodeSelector=None))),
            (
                "f: template.spec.engines[0].members: at least one member must have a nodeSelector "
                "that "
                "requests devices"
            ),
        ),
        (
            released(engine("a", member(worker={"nodes": 2}))),
            "f: template.spec.engines[0].members[0].worker: is valid only for a member of role W",
        ),
        (
            deployment(
                {
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": {"modelplane.ai/x": "y"}},
                        "spec": {"engines": [engine()]},
                    },
                }
            ),
            (
                "f: template.metadata.labels[modelplane.ai/x]: uses the prefix modelplane.ai/, "
                "which is reserved"
            ),
        ),
        (released(replicas=11), "f: replicas: must be at most 10, got 11"),
    ],
)
def test_conflicting_deployments_are_rejected(document: Manifest, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in rejected(document))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            released(engine("e", member("Leader", nodeSelector=None), member("Worker"))),
            f"f: template.spec.engines[0].members[1].nodeSelector: {DEVICES}",
        ),
        (proposed(model={"name": "m"}), "f: model: cannot be carried over: name the model"),
    ],
)
def test_unsupported_fields_of_deployments_are_errors_or_warnings(
    document: Manifest, expected: str
) -> None:
    assert any(problem.startswith(expected) for problem in reject(document))
    assert reject(document, lossy=True) == []
    warned = expected.replace("f: ", "f: warning: ", 1)
    assert any(message.startswith(warned) for message in check(document, lossy=True))
