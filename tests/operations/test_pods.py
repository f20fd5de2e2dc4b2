"""What day two puts into pods: startup probes, spread leaders. Nothing unless asked for."""

from __future__ import annotations

from typing import Any

import pytest
from routed import pair
from samples import (
    container,
    nodes,
    pod_templates,
    problems,
    role,
    service,
    serving_containers,
    template,
    warnings,
)

Manifest = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def about(field: str, found: list[str]) -> list[str]:
    return [each for each in found if field in each]


@pytest.mark.parametrize(
    ("given", "failures"),
    [
        ({"timeout": "30m"}, 180),
        ({"timeout": "95s"}, 10),
        ({"timeout": "1ms"}, 1),
        ({"modelSize": "16Gi"}, 39),  # 300 s and 82 s to read it
        ({"modelSize": "642Gi", "readRate": "1Gi"}, 95),
    ],
)
def test_startup_time_follows_model_size(given: Manifest, failures: int) -> None:
    (built,) = serving_containers(service(role(startup=given)))
    assert built["startupProbe"] == {
        "httpGet": {"path": "/health", "port": 8000},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
    assert built["readinessProbe"]["httpGet"] == built["startupProbe"]["httpGet"]


def test_size_of_the_services_model_counts_where_a_role_states_none() -> None:
    model = {"uri": "hf://Qwen/Qwen3-8B", "size": "16Gi"}
    own = container(args=[])
    for given, failures in (({}, 39), ({"timeout": "1m"}, 6), ({"modelSize": "1Gi"}, 31)):
        manifest = service(role(startup=given, template=template(own)), model=model)
        assert problems(manifest) == []
        (built,) = serving_containers(manifest)
        assert built["startupProbe"]["failureThreshold"] == failures


def test_workers_get_no_startup_probe_and_a_sidecar_does_not_answer_it() -> None:
    leader, worker = serving_containers(
        service(role(startup={"timeout": "9m"}, multinode=nodes(2)))
    )
    assert "startupProbe" in leader
    assert "startupProbe" not in worker
    manifest = pair()
    manifest["spec"]["roles"][2]["startup"] = {"timeout": "9m"}
    decode = serving_containers(manifest)[1]
    assert decode["startupProbe"]["httpGet"]["port"] == 8001


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (
            service(role(startup={})),
            (
                "roles[0].startup: requires timeout, modelSize, or the size of the service's "
                "model (model.size)"
            ),
        ),
        (
            service(role(startup={"timeout": "1m", "modelSize": "1Gi"})),
            "roles[0].startup: timeout conflicts with modelSize; remove one of them",
        ),
        (
            service(role(startup={"modelSize": "big"})),
            'roles[0].startup.modelSize: must be an amount of bytes such as 80Gi, got "big"',
        ),
        (
            service(
                role(
                    startup={"timeout": "1m"},
                    template=template(container(startupProbe={"tcpSocket": {"port": 1}})),
                )
            ),
            "roles[0].startup: conflicts with the container's startupProbe; remove one of them",
        ),
        (
            service(
                role(
                    startup={"timeout": "1m"},
                    template=template(container(image="a:1", command=["/serve"], args=[])),
                )
            ),
            (
                "roles[0].startup: requires a known engine; remove it, and write a startupProbe "
                "into the template"
            ),
        ),
    ],
)
def test_startup_of_unknown_engine_is_rejected(manifest: Manifest, problem: str) -> None:
    assert problem in problems(manifest)


def test_start_longer_than_an_update_waits_is_a_warning() -> None:
    manifest = service(role(startup={"timeout": "2h"}), wait={"timeout": "1h"})
    assert about("startup", warnings(manifest)) == [
        ("warning: roles[0].startup: allows 7200 s, but wait.timeout is 1h; raise wait.timeout"),
        (
            "warning: roles[0].startup: allows 7200 s, but rollout.timeout is 45m; raise "
            "rollout.timeout"
        ),
    ]


@pytest.mark.parametrize(
    ("probe", "seconds"),
    [
        ({}, 30),
        ({"periodSeconds": 20, "failureThreshold": 5}, 100),
        ({"initialDelaySeconds": 900}, None),
        ({"failureThreshold": 60}, None),
    ],
)
def test_liveness_probe_that_ends_loading_engines_is_a_warning(
    probe: Manifest, seconds: int | None
) -> None:
    own = container(livenessProbe={"tcpSocket": {"port": 8000}, **probe})
    found = about("livenessProbe", warnings(service(role(template=template(own)))))
    assert [f"after {seconds} s" in each for each in found] == [True] * (seconds is not None)
    made = role(template=template(own), startup={"timeout": "30m"})
    assert about("livenessProbe", warnings(service(made))) == []


def test_leaders_are_spread_over_all_replicas_of_their_role() -> None:
    own = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    made = role(
        replicas=2,
        multinode=nodes(2),
        topologySpread=[{"topologyKey": ZONE}],
        template=template(topologySpreadConstraints=[own]),
    )
    leader, worker, second, _ = [each["spec"] for each in pod_templates(service(made))]
    assert leader["topologySpreadConstraints"] == [
        own,
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {
                "matchLabels": {
                    "fusioninfer.io/service": "svc",
                    "fusioninfer.io/component-type": "worker",
                    "fusioninfer.io/role-name": "inference",
                    "leaderworkerset.sigs.k8s.io/worker-index": "0",
                }
            },
        },
    ]
    assert second["topologySpreadConstraints"] == leader["topologySpreadConstraints"]
    assert worker["topologySpreadConstraints"] == [own]


def test_constraint_given_twice_is_rejected() -> None:
    own = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    made = role(
        topologySpread=[{"topologyKey": ZONE}, {"topologyKey": "a"}, {"topologyKey": "a"}],
        template=template(topologySpreadConstraints=[own]),
    )
    # The schema of the rendered object says it: list keys are topologyKey and whenUnsatisfiable.
    refused = problems(service(made))
    assert len(refused) == 2
    assert all("topologySpreadConstraints" in each and "remove one" in each for each in refused)
    assert [ZONE in each for each in refused] == [True, False]
