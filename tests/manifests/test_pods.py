"""Pods of a role: fields from the role, generated fields, and fields that workers do not get."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from rows import each_row
from samples import (
    container,
    nodes,
    pod_templates,
    prefill_decode,
    rendered,
    role,
    service,
    template as pod,
)

PROBE = {"httpGet": {"path": "/ready", "port": 8000}}
FULL = container(
    env=[{"name": "A", "value": "b"}],
    ports=[{"containerPort": 8000, "name": "http"}],
    volumeMounts=[{"name": "models", "mountPath": "/models"}],
    readinessProbe=PROBE,
    livenessProbe=PROBE,
    startupProbe=PROBE,
    lifecycle={"preStop": {"exec": {"command": ["true"]}}},
    securityContext={"runAsUser": 1000},
)
SIDE = container("side", image="side:1", args=["x"], readinessProbe=PROBE,
                 ports=[{"containerPort": 9}])  # fmt: skip
POD: dict[str, Any] = {
    "initContainers": [container("fetch", image="fetch:1"), {**SIDE, "restartPolicy": "Always",
                                                              "name": "log"}],
    "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
    "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "net"}],
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "serviceAccountName": "models",
    "hostIPC": True,
}  # fmt: skip
METADATA = {"labels": {"team": "a"}, "annotations": {"note": "b"}}


def body(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the leaderWorkerTemplate of the only LeaderWorkerSet of a manifest."""
    (only,) = (item for item in rendered(manifest) if item["kind"] == "LeaderWorkerSet")
    result: dict[str, Any] = only["spec"]["leaderWorkerTemplate"]
    return result


def loose(**fields: Any) -> dict[str, Any]:
    """Return a service without a gang, so that only the roles determine the pods."""
    return service(role(**fields), schedulingStrategy={"gangPolicy": {"mode": "Off"}})


def test_single_pod_has_unchanged_template() -> None:
    template = pod(FULL, SIDE, metadata=METADATA, **POD)
    built = body(loose(template=template))["workerTemplate"]
    assert built["spec"] == template["spec"]
    assert built["metadata"]["annotations"] == METADATA["annotations"]
    assert built["metadata"]["labels"].items() >= METADATA["labels"].items()


def test_workers_get_the_template_without_probes_ports_and_hooks() -> None:
    template = pod(FULL, SIDE, metadata=METADATA, **POD)
    built = body(loose(template=template, multinode=nodes(2, launcher="none")))
    value = copy.deepcopy(template["spec"])
    assert built["leaderTemplate"]["spec"] == value
    for key in ("ports", "readinessProbe", "livenessProbe", "startupProbe", "lifecycle"):
        del value["containers"][0][key]
    # The sidecar serves in every pod, so its probe and port stay.
    assert built["workerTemplate"]["spec"] == value
    assert built["workerTemplate"]["metadata"] == built["leaderTemplate"]["metadata"]


def test_building_does_not_change_the_input() -> None:
    manifest = prefill_decode(
        {"template": pod(FULL, SIDE, metadata=METADATA, **POD), "multinode": nodes(2)}, {}
    )
    before = copy.deepcopy(manifest)
    rendered(manifest)
    assert manifest == before


def test_ray_launcher_wraps_leader_command_and_workers_join() -> None:
    built = body(loose(template=pod(container(gpus=None)), multinode=nodes(2)))
    leader, worker = (
        built[key]["spec"]["containers"][0] for key in ("leaderTemplate", "workerTemplate")
    )
    assert leader["command"] == worker["command"] == ["/bin/sh", "-c"]
    assert leader["args"] == [
        "ray start --head --port=6379 && exec vllm serve m --distributed-executor-backend ray"
    ]
    assert worker["args"] == ["ray start --address=$LWS_LEADER_ADDRESS:6379 --block"]
    assert leader["ports"] == [{"name": "ray-head", "containerPort": 6379}]
    assert list(leader)[:4] == ["name", "image", "command", "args"]


def test_declared_ray_port_is_not_added_again() -> None:
    ports = [{"containerPort": 8000}, {"containerPort": 6379, "name": "mine"}]
    built = body(loose(template=pod(container(ports=ports)), multinode=nodes(2)))
    assert built["leaderTemplate"]["spec"]["containers"][0]["ports"] == ports


def test_other_launchers_declare_no_ray_port() -> None:
    vllm = container(image="vllm/vllm-openai:v0.12.0", args=["--model", "m", "-tp", "2"])
    wide = loose(template=pod(vllm), multinode=nodes(2, launcher="multiprocessing"))
    leader = body(wide)["leaderTemplate"]["spec"]["containers"][0]
    assert "ports" not in leader
    assert "ray" not in str(leader)


def test_recreated_workers_wait_for_the_ray_head() -> None:
    early = loose(multinode=nodes(2), restartPolicy="RecreateGroupOnPodRestart")
    script = body(early)["workerTemplate"]["spec"]["containers"][0]["args"][0]
    assert "until ray health-check --address=$LWS_LEADER_ADDRESS:6379" in script
    after = loose(multinode=nodes(2), restartPolicy="RecreateGroupAfterStart")
    assert "until" not in body(after)["workerTemplate"]["spec"]["containers"][0]["args"][0]


def test_leader_and_worker_templates_are_used_unchanged() -> None:
    leader = pod(container(command=["lead"], args=["1"], readinessProbe=PROBE), hostname="lead")
    worker = pod(container(command=["join"], args=["2"], readinessProbe=PROBE), hostname="join")
    wide = role(template=None, multinode=nodes(2), leaderTemplate=leader, workerTemplate=worker)
    built = body(service(wide, schedulingStrategy={"gangPolicy": {"mode": "Off"}}))
    assert built["leaderTemplate"]["spec"] == leader["spec"]
    assert built["workerTemplate"]["spec"] == worker["spec"]


PAUSE = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 20"]}}}


@each_row(
    ("fields", "seconds", "paused"),
    [
        ({}, None, True),
        ({}, 600, True),
        ({}, 20, False),
        ({}, 0, False),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}, None, False),
        ({"lifecycle": None}, None, False),
    ],
)
@each_row("count", [1, 2])
def test_serving_pods_shut_down_gracefully_unless_configured(
    fields: dict[str, Any], seconds: int | None, paused: bool, count: int
) -> None:
    grace = {} if seconds is None else {"terminationGracePeriodSeconds": seconds}
    template = pod(container(**fields), **grace)
    built = body(loose(template=template, multinode=nodes(count)))
    for key in ("leaderTemplate", "workerTemplate")[2 - count :]:
        spec = built[key]["spec"]
        (main,) = spec["containers"]
        value = fields.get("lifecycle") if key == "leaderTemplate" or count == 1 else None
        assert main.get("lifecycle") == (PAUSE if paused else value)
        assert spec.get("terminationGracePeriodSeconds") == ((seconds or 80) if paused else seconds)


@pytest.mark.parametrize(
    ("timeout", "worker", "grace"), [("0", 20, 80), ("30", 50, 80), ("300", 320, 340)]
)
def test_grace_period_covers_the_shutdown_timeout(timeout: str, worker: int, grace: int) -> None:
    draining = container(args=[*container()["args"], "--shutdown-timeout", timeout])
    built = body(loose(template=pod(draining), multinode=nodes(2)))
    pauses = {"leaderTemplate": 20, "workerTemplate": worker}
    for key, seconds in pauses.items():
        spec = built[key]["spec"]
        (main,) = spec["containers"]
        hook = main["lifecycle"]["preStop"]["exec"]["command"]
        assert hook == ["/bin/sh", "-c", f"sleep {seconds}"]
        assert spec["terminationGracePeriodSeconds"] == grace


@each_row(
    ("serving", "probed"),
    [
        (container(), True),
        (container(image="lmsysorg/sglang:v0.5.3"), True),
        (container(image="own:1", command=["/app/serve"]), False),
        (container(readinessProbe=PROBE), False),
        (container(readinessProbe=None), False),
    ],
)
def test_known_engine_gets_readiness_probe_unless_configured(
    serving: dict[str, Any], probed: bool
) -> None:
    whole = body(service(role(template=pod(serving))))["workerTemplate"]["spec"]
    (built,) = whole["containers"]
    if built["image"] != "own:1":
        assert built.pop("lifecycle") == PAUSE
        assert whole["terminationGracePeriodSeconds"] == 80
    if probed:
        assert built["readinessProbe"]["httpGet"]["path"] == "/health"
        del built["readinessProbe"]
    assert built == {key: value for key, value in serving.items() if value is not None}


@each_row(
    ("fields", "expected"),
    [
        ({}, None),
        ({"multinode": nodes(1)}, None),
        ({"multinode": nodes(2)}, "RecreateGroupAfterStart"),
        ({"multinode": nodes(2), "restartPolicy": "None"}, "None"),
        ({"restartPolicy": "RecreateGroupOnPodRestart"}, "RecreateGroupOnPodRestart"),
    ],
)
def test_multi_node_groups_restart_only_after_start(
    fields: dict[str, Any], expected: str | None
) -> None:
    assert body(loose(**fields)).get("restartPolicy") == expected


def test_leader_worker_set_fields_are_passed_on() -> None:
    manifest = loose(
        multinode=nodes(5),
        startupPolicy="LeaderReady",
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
        subGroupPolicy={"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
    )
    spec = rendered(manifest)[0]["spec"]
    built = spec.pop("leaderWorkerTemplate")
    assert spec == {
        "replicas": 1,
        "startupPolicy": "LeaderReady",
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
    }
    assert built["size"] == 5
    assert built["subGroupPolicy"] == {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}


def test_service_metadata_is_on_objects_and_not_on_pods() -> None:
    fields = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    manifest = prefill_decode(metadata={**fields, "namespace": "models"})
    for item in rendered(manifest):
        metadata = item["metadata"]
        assert metadata["namespace"] == "models"
        assert metadata["annotations"] == {"note": "b"}
        assert metadata["labels"]["team"] == "a"
        assert metadata["labels"]["fusioninfer.io/service"] == "svc"
    for template in pod_templates(manifest):
        assert "team" not in template["metadata"]["labels"]
        assert "note" not in template["metadata"]["annotations"]


def test_gang_pod_names_pod_group_and_task() -> None:
    templates = pod_templates(prefill_decode({"multinode": nodes(2)}, {}))
    assert [template["metadata"]["annotations"] for template in templates] == [
        {"scheduling.k8s.io/group-name": "svc", "volcano.sh/task-spec": task}
        for task in ("prefill-0", "prefill-0", "decode-0", "decode-1")
    ]


@each_row(
    ("fields", "spec"),
    [
        ({"kvCacheOffloading": {"cpu": "1Gi"}}, {}),
        ({}, {"tracing": {"endpoint": "http://collector:4317"}}),
        ({"parallelism": {"tensor": 2}}, {}),
        ({}, {"model": {"uri": "hf://org/name"}}),
    ],
)
def test_ray_launcher_drops_arguments_added_to_workers(
    fields: dict[str, Any], spec: dict[str, Any]
) -> None:
    """The worker only joins Ray, and the engine runs on the leader."""
    image = "vllm/vllm-openai:v0.22.0"
    args = [] if "model" in spec else ["--model", "m"]
    wide = role(
        template=None,
        multinode=nodes(2, launcher="ray"),
        leaderTemplate=pod(container(image=image, args=args)),
        workerTemplate=pod(container(image=image, args=None)),
        **fields,
    )
    (worker,) = body(service(wide, **spec))["workerTemplate"]["spec"]["containers"]
    assert worker["args"] == ["ray start --address=$LWS_LEADER_ADDRESS:6379 --block"]


def test_worker_template_keeps_its_probes_hooks_and_ports() -> None:
    """Only worker templates that are copied from the leader lose them."""
    lasting = {"lifecycle": {"preStop": {"exec": {"command": ["/drain"]}}}}
    probe = {"livenessProbe": {"exec": {"command": ["/alive"]}}, "ports": [{"containerPort": 9}]}
    fields = container(args=None, **lasting, **probe)
    for launcher in ("ray", "multiprocessing"):
        serving = container(command=["vllm", "serve"], args=["m", "-tp", "2"])
        wide = {"multinode": nodes(2, launcher=launcher), "template": None}
        if launcher == "multiprocessing":
            fields = {**fields, "command": ["vllm", "serve"], "args": ["m", "-tp", "2"]}
        separate = role(leaderTemplate=pod(serving), workerTemplate=pod(fields), **wide)
        (built,) = body(service(separate))["workerTemplate"]["spec"]["containers"]
        for key in (*lasting, *probe):
            assert built[key] == fields[key]
