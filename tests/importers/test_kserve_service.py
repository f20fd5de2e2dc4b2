"""A KServe LLMInferenceService, field by field."""

from __future__ import annotations

import pytest
from importers.kserve_samples import (
    LIVENESS,
    PRESET,
    ROUTER,
    URI,
    Manifest,
    container,
    llm,
    pod,
    volumes,
)
from importers.reads import problems, said, spec, warned

from fusioninfer_pulumi.importers.kserve.container import IMAGE

NIXL = '--kv_transfer_config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''
ADDED = {"name": "VLLM_ADDITIONAL_ARGS", "value": NIXL}
DRA = "serving.kserve.io/exp-dra-"


def test_a_service_of_one_workload() -> None:
    made = spec(llm(replicas=3))
    assert made["model"] == {"uri": URI, "name": "llm", "fetch": "InitContainer"}
    (role,) = made["roles"]
    assert (role["name"], role["componentType"], role["replicas"]) == ("main", "worker", 3)
    assert container(role) == {
        "name": "main",
        "image": IMAGE,
        "command": ["vllm", "serve"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        **PRESET,
        "livenessProbe": LIVENESS,
    }
    assert role["template"]["spec"]["volumes"] == volumes()


@pytest.mark.parametrize(
    ("uri", "enabled", "fetch"),
    [
        (URI, False, "Engine"),
        (URI, True, "InitContainer"),
        ("pvc://claim/path", False, None),
        ("oci://registry.example.com/model:1", True, None),
    ],
)
def test_who_downloads_the_model(uri: str, enabled: bool, fetch: str | None) -> None:
    made = spec(llm(model={"uri": uri}, storageInitializer={"enabled": enabled}))
    assert made["model"].get("fetch") == fetch


def test_a_prefill_block_makes_the_main_workload_decode() -> None:
    env = {"env": [ADDED]}
    document = llm(
        replicas=1,
        template=pod(**env),
        prefill={"replicas": 2, "template": pod(**env)},
        router=ROUTER,
    )
    roles = spec(document)["roles"]
    assert [(each["name"], each["componentType"]) for each in roles] == [
        ("prefill", "prefiller"),
        ("decode", "decoder"),
        ("router", "router"),
    ]
    assert [each.get("replicas") for each in roles] == [2, 1, None]


def test_a_command_of_its_own_is_kept_whole() -> None:
    own = {"command": ["vllm", "serve"], "args": ["--a 'b c'"], "env": [ADDED], "image": "i"}
    (role,) = spec(llm(template=pod(**own)))["roles"]
    env = [*PRESET["env"], ADDED]
    assert container(role) == {
        "name": "main",
        **PRESET,
        **own,
        **pod()["containers"][0],
        "env": env,
    }
    assert "startup" not in role


def test_probes_do_not_ask_for_the_certificate_that_kserve_makes() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}, "periodSeconds": 30}
    document = llm(template=pod(livenessProbe=probe))
    (role,) = spec(document)["roles"]
    assert container(role)["livenessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert any("livenessProbe.httpGet.scheme" in each for each in said(document))


@pytest.mark.parametrize(
    ("parallelism", "launcher", "nodes"),
    [
        ({"data": 16, "dataLocal": 8, "tensor": 1, "expert": True}, "data-parallel", 2),
        ({"pipeline": 2, "tensor": 8}, "multiprocessing", 2),
    ],
)
def test_a_worker_block_makes_replicas_of_several_pods(
    parallelism: Manifest, launcher: str, nodes: int
) -> None:
    (role,) = spec(llm(template=pod(8), worker=pod(8), parallelism=parallelism))["roles"]
    assert role["multinode"] == {"nodeCount": nodes, "launcher": launcher}
    assert role["parallelism"] == parallelism
    assert container(role, "workerTemplate")["command"] == ["vllm", "serve"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"worker": pod()},
            ("worker: when worker is specified, parallelism must be configured for either data "
            "parallelism or pipeline parallelism"),
        ),
        (
            {"worker": pod(), "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1}},
            "parallelism: cannot set both pipeline and data parallelism (data or dataLocal)",
        ),
        (
            {"worker": pod(), "parallelism": {"data": 2}},
            "parallelism: dataLocal must be set when data is set",
        ),
        (
            {"parallelism": {"pipeline": 2}},
            "parallelism: a replica has 2 pods, but there is no worker to say what the others run",
        ),
        (
            {"template": {"containers": [{"name": "x"}]}},
            "template.containers: has no container main, the one that KServe's presets configure",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_refused(more: Manifest, why: str) -> None:
    assert f"f: {why}" in problems(llm(**more))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"scaling": {"maxReplicas": 3}}, "scaling"),
        (
            {"model": {"uri": "s3://b/k"}, "storageInitializer": {"enabled": False}},
            "storageInitializer.enabled",
        ),
        ({"tracing": {"sampler": "always_on"}}, "tracing"),
        (
            {"tracing": {"exporterEndpoint": "http://o:1", "sampler": "always_on"}},
            "tracing.sampler",
        ),
        ({"scaling": {"maxReplicas": 3, "keda": {"triggers": [{"type": "cron"}]}}}, "scaling"),
        ({"router": {"ingress": {}}}, "router.ingress"),
        ({"router": {"route": {"group": "g", "weight": 1}}}, "router.route.group"),
        ({"router": {"scheduler": {"tokenizer": {}}}}, "router.scheduler.tokenizer"),
        ({"baseRefs": [{"name": "elsewhere"}]}, "baseRefs[0]"),
        ({"metadata": {"annotations": {f"{DRA}device-class": "c", f"{DRA}container-name": "x"}},
          "template": pod(None)},
         f"metadata.annotations[{DRA}container-name]"),
        ({"template": pod(env=[{"name": "A", "value": "{{ ChildName .ObjectMeta.Name `-x` }}"}])},
         "template.containers[0].env[0].value"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused_or_warned_of(more: Manifest, field: str) -> None:
    refused = f"f: {field}: cannot be carried over:"
    assert any(each.startswith(refused) for each in problems(llm(**more)))
    assert problems(llm(**more), lossy=True) == []
    told = f"f: warning: {field}: cannot be carried over:"
    assert any(each.startswith(told) for each in warned(llm(**more), lossy=True))


@pytest.mark.parametrize(
    ("strategy", "rollout", "layout"),
    [
        ({"maxUnavailable": 2}, {"maxUnavailable": 2}, None),
        ({"maxUnavailable": "25%", "maxSurge": 0}, {"maxUnavailable": "25%", "maxSurge": 0}, None),
        ({"maxUnavailable": "0%", "maxSurge": 1}, {"maxUnavailable": 0, "maxSurge": 1}, "PerRole"),
    ],
)
def test_the_pace_of_updates(strategy: Manifest, rollout: Manifest, layout: str | None) -> None:
    made = spec(llm(replicas=4, rolloutStrategy=strategy))
    assert (made["roles"][0]["rollout"], made.get("layout")) == (rollout, layout)


TRIGGER = {
    "type": "prometheus",
    "metadata": {
        "serverAddress": "http://prometheus:9090",
        "query": "sum(waiting)",
        "threshold": "5",
    },
}


def test_scaling_by_prometheus() -> None:
    made = spec(llm(scaling={"minReplicas": 2, "maxReplicas": 4, "keda": {"triggers": [TRIGGER]}}))
    assert made["layout"] == "PerRole"
    assert made["roles"][0]["autoscaling"] == {
        "engine": "KEDA",
        "minReplicas": 2,
        "maxReplicas": 4,
        "prometheus": "http://prometheus:9090",
        "metrics": [{"query": "sum(waiting)", "target": "5"}],
    }


def test_tracing() -> None:
    given = {"exporterEndpoint": "http://otel:4317", "sampler": "parentbased_traceidratio",
             "samplerArg": "0.25", "exporter": "otlp"}  # fmt: skip
    assert spec(llm(tracing=given))["tracing"] == {"endpoint": "http://otel:4317", "sampling": 0.25}


def test_the_presets_startup_probe_unless_the_container_has_its_own() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    assert spec(llm())["roles"][0]["startup"] == {"timeout": "10m"}
    assert "startup" not in spec(llm(template=pod(startupProbe=probe)))["roles"][0]


def test_devices_by_annotations() -> None:
    given = {
        f"{DRA}device-class": "gpu.nvidia.com",
        f"{DRA}device-count": "2",
        f"{DRA}container-name": "main",
        f"{DRA}cel-selector": "device.attributes['a']['b'] == 'c'\n\ndevice.driver == 'd'\n",
    }
    metadata = {"annotations": given}
    one = pod(None, env=[ADDED])
    document = llm(metadata=metadata, template=one, prefill={"template": one}, router=ROUTER)
    claims = [each.get("resourceClaims") for each in spec(document)["roles"]]
    claim = {
        "name": "managed-device",
        "deviceClassName": "gpu.nvidia.com",
        "count": 2,
        "selectors": ["device.attributes['a']['b'] == 'c'", "device.driver == 'd'"],
    }
    assert claims == [[claim], [claim], None]


@pytest.mark.parametrize(
    ("given", "field"),
    [({"device-count": "2"}, "device-count"),
     ({"device-class": "c", "device-count": "two"}, "device-count")],
)  # fmt: skip
def test_devices_that_make_no_sense(given: Manifest, field: str) -> None:
    metadata = {"annotations": {f"{DRA}{key}": value for key, value in given.items()}}
    told = problems(llm(metadata=metadata, template=pod(None)))
    assert told[0].startswith(f"f: metadata.annotations[{DRA}{field}]: ")


def test_a_stopped_service_is_parked() -> None:
    made = spec(llm(metadata={"annotations": {"serving.kserve.io/stop": "true"}}))
    assert [each["replicas"] for each in made["roles"]] == [0]


def test_what_leads_to_a_stopped_service_stays_and_nothing_scales_it() -> None:
    document = llm(
        metadata={"annotations": {"serving.kserve.io/stop": "True"}},
        scaling={"minReplicas": 2, "maxReplicas": 4, "keda": {"triggers": [TRIGGER]}},
        router=ROUTER,
    )
    made = spec(document)
    main, router = made["roles"]
    assert (main["replicas"], "autoscaling" in main, "replicas" in router) == (0, False, False)
    assert made["layout"] == "PerRole"
    told = "scaling: left out while the service is stopped: a parked role has no scaler"
    assert f"f: info: {told}" in said(document)


def test_a_workloads_metadata_is_that_of_its_pods() -> None:
    (role,) = spec(llm(labels={"app": "x"}, annotations={"note": "y"}))["roles"]
    assert role["template"]["metadata"] == {"labels": {"app": "x"}, "annotations": {"note": "y"}}
