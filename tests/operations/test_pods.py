"""Pod fields of `startup` and `topologySpread`: probes and spread leaders."""

from __future__ import annotations

from typing import Any

from routed import pair
from rows import each_row
from samples import (
    container,
    nodes,
    pod_templates,
    problems,
    role,
    service,
    serving_containers,
    template,
)

Manifest = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


@each_row(
    ("fields", "failures"),
    [
        ({"timeout": "30m"}, 180),
        ({"timeout": "95s"}, 10),
        ({"timeout": "1ms"}, 1),
        ({"modelSize": "16Gi"}, 39),  # 300 s, and 82 s to read the model
        ({"modelSize": "642Gi", "readRate": "1Gi"}, 95),
    ],
)
def test_startup_time_follows_model_size(fields: Manifest, failures: int) -> None:
    (built,) = serving_containers(service(role(startup=fields)))
    assert built["startupProbe"] == {
        "httpGet": {"path": "/health", "port": 8000},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
    assert built["readinessProbe"]["httpGet"] == built["startupProbe"]["httpGet"]


def test_startup_uses_model_size_of_the_service() -> None:
    model = {"uri": "hf://Qwen/Qwen3-8B", "size": "16Gi"}
    user_container = container(args=[])
    for value, failures in (({}, 39), ({"timeout": "1m"}, 6), ({"modelSize": "1Gi"}, 31)):
        manifest = service(role(startup=value, template=template(user_container)), model=model)
        assert problems(manifest) == []
        (built,) = serving_containers(manifest)
        assert built["startupProbe"]["failureThreshold"] == failures


def test_startup_probe_is_only_on_the_leaders_engine() -> None:
    leader, worker = serving_containers(
        service(role(startup={"timeout": "9m"}, multinode=nodes(2)))
    )
    assert "startupProbe" in leader
    assert "startupProbe" not in worker
    manifest = pair()
    manifest["spec"]["roles"][2]["startup"] = {"timeout": "9m"}
    decode = serving_containers(manifest)[1]
    assert decode["startupProbe"]["httpGet"]["port"] == 8001


def test_leaders_are_spread_over_all_replicas_of_their_role() -> None:
    fields = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    result = role(
        replicas=2,
        multinode=nodes(2),
        topologySpread=[{"topologyKey": ZONE}],
        template=template(topologySpreadConstraints=[fields]),
    )
    leader, worker, second, _ = [
        pod_template["spec"] for pod_template in pod_templates(service(result))
    ]
    assert leader["topologySpreadConstraints"] == [
        fields,
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
    assert worker["topologySpreadConstraints"] == [fields]
