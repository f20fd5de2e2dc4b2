"""KServe's LLMInferenceServices become services: model, workloads, configs, offloading, devices."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from rows import each_row
from samples import of_kind, rendered

from fusioninfer_importers.kserve import presets
from fusioninfer_importers.kserve.container import IMAGE
from importers.tests.kserve_samples import (
    LIVENESS,
    PRESET,
    ROUTER,
    URI,
    Manifest,
    config,
    container,
    llm,
    pod,
    served,
    volumes,
)
from importers.tests.reads import check, convert, read_source, reject, to_spec, warn

NIXL = '--kv_transfer_config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''


ADDED = {"name": "VLLM_ADDITIONAL_ARGS", "value": NIXL}


DRA = "serving.kserve.io/exp-dra-"


def test_single_workload_becomes_one_role() -> None:
    result = to_spec(llm(replicas=3))
    assert result["model"] == {"uri": URI, "name": "llm", "fetch": "InitContainer"}
    (role,) = result["roles"]
    assert (role["name"], role["componentType"], role["replicas"]) == ("main", "worker", 3)
    assert container(role) == {
        "name": "main",
        "image": IMAGE,
        "command": ["vllm", "serve"],
        "args": served(),
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        **PRESET,
        "livenessProbe": LIVENESS,
    }
    assert role["template"]["spec"]["volumes"] == volumes()


@each_row(
    ("uri", "enabled", "fetch"),
    [
        (URI, False, "Engine"),
        (URI, True, "InitContainer"),
        ("pvc://claim/path", False, None),
        ("oci://registry.example.com/model:1", True, None),
    ],
)
def test_storage_initializer_sets_fetch(uri: str, enabled: bool, fetch: str | None) -> None:
    result = to_spec(llm(model={"uri": uri}, storageInitializer={"enabled": enabled}))
    assert result["model"].get("fetch") == fetch


def test_prefill_block_turns_main_workload_into_decode() -> None:
    env = {"env": [ADDED]}
    document = llm(
        replicas=1,
        template=pod(**env),
        prefill={"replicas": 2, "template": pod(**env)},
        router=ROUTER,
    )
    roles = to_spec(document)["roles"]
    assert [(role["name"], role["componentType"]) for role in roles] == [
        ("prefill", "prefiller"),
        ("decode", "decoder"),
        ("router", "router"),
    ]
    assert [role.get("replicas") for role in roles] == [2, 1, None]


def test_user_command_is_unchanged() -> None:
    service = {"command": ["vllm", "serve"], "args": ["--a 'b c'"], "env": [ADDED], "image": "i"}
    (role,) = to_spec(llm(template=pod(**service)))["roles"]
    env = [*PRESET["env"], ADDED]
    assert container(role) == {
        "name": "main",
        **PRESET,
        **service,
        **pod()["containers"][0],
        "env": env,
        "livenessProbe": LIVENESS,
    }
    assert role["startup"] == {"timeout": "10m"}


def test_probes_use_plain_http() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}, "periodSeconds": 30}
    document = llm(template=pod(livenessProbe=probe))
    (role,) = to_spec(document)["roles"]
    assert container(role)["livenessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert any("livenessProbe.httpGet.scheme" in item for item in check(document))


@pytest.mark.parametrize(
    ("parallelism", "launcher", "nodes"),
    [
        ({"data": 16, "dataLocal": 8, "tensor": 1, "expert": True}, "data-parallel", 2),
        ({"pipeline": 2, "tensor": 4}, "multiprocessing", 2),
    ],
)
def test_worker_block_creates_multi_pod_replicas(
    parallelism: Manifest, launcher: str, nodes: int
) -> None:
    main = pod(parallelism["tensor"] * parallelism.get("dataLocal", 1))
    (role,) = to_spec(llm(template=main, worker=main, parallelism=parallelism))["roles"]
    assert role["multinode"] == {"nodeCount": nodes, "launcher": launcher}
    assert role["parallelism"] == parallelism
    assert container(role, "workerTemplate")["command"] == ["vllm", "serve"]


@each_row(
    ("more", "why"),
    [
        (
            {"worker": pod()},
            (
                "worker: when worker is specified, parallelism must be configured for either data "
                "parallelism or pipeline parallelism"
            ),
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
            "parallelism: a replica has 2 pods, but worker is not set",
        ),
    ],
)
def test_conflicting_fields_are_rejected(more: Manifest, why: str) -> None:
    assert f"f: {why}" in reject(llm(**more))


@each_row(
    ("more", "field"),
    [
        ({"scaling": {"maxReplicas": 3}}, "scaling"),
        (
            {"model": {"uri": "s3://b/k"}, "storageInitializer": {"enabled": False}},
            "storageInitializer.enabled",
        ),
        (
            {"tracing": {"exporterEndpoint": "http://o:1", "sampler": "always_on"}},
            "tracing.sampler",
        ),
        ({"scaling": {"maxReplicas": 3, "keda": {"triggers": []}}}, "scaling"),
        ({"router": {"ingress": {}}}, "router.ingress"),
        (
            {"router": {"route": {"group": "g", "weight": 1, "http": {"spec": {"rules": []}}}}},
            "router.route.group",
        ),
        ({"model": {"uri": URI, "confidential": {"enabled": True}}}, "model.confidential"),
        ({"baseRefs": [{"name": "elsewhere"}]}, "baseRefs[0]"),
        ({"metadata": {"annotations": {f"{DRA}device-class": "c", f"{DRA}container-name": "x"}},
          "template": pod(None)},
         f"metadata.annotations[{DRA}container-name]"),
        ({"template": pod(env=[{"name": "A", "value": "{{ ChildName .ObjectMeta.Name `-x` }}"}])},
         "template.containers[0].env[0].value"),
    ],
)  # fmt: skip
def test_unsupported_fields_are_errors_or_warnings(more: Manifest, field: str) -> None:
    errors = f"f: {field}: cannot be carried over:"
    assert any(problem.startswith(errors) for problem in reject(llm(**more)))
    assert reject(llm(**more), lossy=True) == []
    message = f"f: warning: {field}: cannot be carried over:"
    assert any(item.startswith(message) for item in warn(llm(**more), lossy=True))


@pytest.mark.parametrize(
    ("strategy", "rollout", "layout"),
    [
        ({"maxUnavailable": 2}, {"maxUnavailable": 2}, None),
        ({"maxUnavailable": "25%", "maxSurge": 0}, {"maxUnavailable": "25%", "maxSurge": 0}, None),
        ({"maxUnavailable": "0%", "maxSurge": 1}, {"maxUnavailable": 0, "maxSurge": 1}, "PerRole"),
    ],
)
def test_rollout_strategy_becomes_rollout(
    strategy: Manifest, rollout: Manifest, layout: str | None
) -> None:
    result = to_spec(llm(replicas=4, rolloutStrategy=strategy))
    assert (result["roles"][0]["rollout"], result.get("layout")) == (rollout, layout)


TRIGGER = {
    "type": "prometheus",
    "metadata": {
        "serverAddress": "http://prometheus:9090",
        "query": "sum(waiting)",
        "threshold": "5",
    },
}


def test_prometheus_triggers_become_autoscaling() -> None:
    result = to_spec(
        llm(scaling={"minReplicas": 2, "maxReplicas": 4, "keda": {"triggers": [TRIGGER]}})
    )
    assert result["layout"] == "PerRole"
    assert result["roles"][0]["autoscaling"] == {
        "engine": "KEDA",
        "minReplicas": 2,
        "maxReplicas": 4,
        "keda": {"triggers": [TRIGGER]},
    }


@pytest.mark.parametrize(
    ("pods", "ours"),
    [
        ("{{ ChildName .ObjectMeta.Name `-kserve` }}-[a-z0-9]+-[a-z0-9]+$", "llm-main-[0-9]+$"),
        ("llm-kserve-.*", "llm-main-.*"),
        ("llm-kserve-workload-svc", "llm-kserve-workload-svc"),
    ],
)
def test_query_names_the_pods_of_the_leader_worker_set(pods: str, ours: str) -> None:
    query = 'avg(vllm:num_requests_running{pod=~"^%s"})'
    metadata = {**TRIGGER["metadata"], "query": query % pods}
    result = to_spec(
        llm(scaling={"maxReplicas": 4, "keda": {"triggers": [{**TRIGGER, "metadata": metadata}]}})
    )
    (trigger,) = result["roles"][0]["autoscaling"]["keda"]["triggers"]
    assert trigger["metadata"]["query"] == query % ours


@pytest.mark.parametrize("containers", [[], [{"name": "side", "image": "x:1"}]])
def test_missing_main_container_is_added_from_preset(containers: list[Manifest]) -> None:
    (role,) = to_spec(llm(template={"containers": containers}))["roles"]
    names = [item["name"] for item in role["template"]["spec"]["containers"]]
    assert names == ["main", *(item["name"] for item in containers)]


def test_empty_tracing_has_values_of_preset() -> None:
    preset = {"endpoint": "http://otel-collector:4317", "sampling": 0.05}
    assert to_spec(llm(tracing={}))["tracing"] == preset


def test_image_volume_uri_is_converted() -> None:
    assert to_spec(llm(model={"uri": "oci+native://r.io/m:1"}))["model"]["uri"] == "oci://r.io/m:1"


def test_ports_of_the_preset_are_accepted_on_the_scheduler() -> None:
    ports = [{"containerPort": 9002, "name": "grpc"}, {"containerPort": 9090, "name": "metrics"}]
    template = {"containers": [{"name": "main", "ports": ports}]}
    document = llm(router={**ROUTER, "scheduler": {"template": template}})
    assert reject(document) == []


def test_variant_autoscaler_becomes_horizontal_pod_autoscaler() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 120}}
    scaling = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "wva": {"variantCost": "5", "hpa": {"behavior": behavior}},
    }
    document = llm(scaling=scaling, model={"uri": URI, "name": "qwen"})
    (hpa,) = of_kind(rendered(*convert(document)), "HorizontalPodAutoscaler")
    metric = {"name": "wva_desired_replicas", "selector": {"matchLabels": {"variant_name": "NAME"}}}
    metric["selector"]["matchLabels"]["variant_name"] = hpa["metadata"]["name"]
    target = {"type": "AverageValue", "averageValue": "1"}
    assert hpa["spec"]["metrics"] == [
        {"type": "External", "external": {"metric": metric, "target": target}}
    ]
    assert (hpa["spec"]["maxReplicas"], hpa["spec"]["behavior"]) == (4, behavior)
    annotations = {
        "llm-d.ai/managed": "true",
        "llm-d.ai/model-id": "qwen",
        "llm-d.ai/variant-cost": "5",
    }
    assert annotations.items() <= hpa["metadata"]["annotations"].items()
    assert hpa["metadata"]["labels"]["inference.optimization/acceleratorName"] == "unknown"
    assert any("target of type Value multiplies" in line for line in check(document))


def test_variant_autoscaler_with_keda_needs_prometheus_address() -> None:
    document = llm(scaling={"maxReplicas": 3, "wva": {"keda": {}}})
    (problem,) = reject(document)
    assert problem.startswith("f: scaling.wva.keda: cannot be carried over: the address of Prom")
    data = {"autoscaling-wva-controller-config": '{"prometheus": {"url": "http://p:9090"}}'}
    metadata = {"name": "inferenceservice-config", "namespace": "kserve"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    documents = (document, {**settings, "data": data})
    assert reject(*documents) + warn(*documents) == []
    data["ingress"] = "{}"
    (warning,) = warn(document, {**settings, "data": data})
    assert "only autoscaling-wva-controller-config is read" in warning


def test_variant_autoscalers_of_prefill_and_decode_have_their_own_costs() -> None:
    costs = [{"maxReplicas": 3, "wva": {"hpa": {}, "variantCost": cost}} for cost in ("5", "9")]
    document = llm(
        scaling=costs[0], prefill={"scaling": costs[1], "template": pod()}, router=ROUTER
    )
    scalers = of_kind(rendered(*convert(document)), "HorizontalPodAutoscaler")
    assert {
        scaler["metadata"]["labels"]["fusioninfer.io/role-name"]: scaler["metadata"]["annotations"][
            "llm-d.ai/variant-cost"
        ]
        for scaler in scalers
    } == {"decode": "5", "prefill": "9"}


def test_different_accelerators_of_variant_autoscalers_are_rejected() -> None:
    label = "inference.optimization/acceleratorName"
    scaling = {"maxReplicas": 3, "wva": {"hpa": {}}}
    prefill = {"scaling": scaling, "labels": {label: "H100"}, "template": pod()}
    document = llm(scaling=scaling, labels={label: "A100"}, prefill=prefill, router=ROUTER)
    matches = [line for line in reject(document) if f"{label} applies to all autoscalers" in line]
    assert len(matches) == 1


def test_empty_prefill_becomes_a_role() -> None:
    document = llm(prefill={}, router=ROUTER)
    kinds = [role["componentType"] for role in to_spec(document)["roles"]]
    assert kinds == ["prefiller", "decoder", "router"]


def test_tracing_is_converted() -> None:
    values = {"exporterEndpoint": "http://otel:4317", "sampler": "parentbased_traceidratio",
             "samplerArg": "0.25", "exporter": "otlp"}  # fmt: skip
    result = to_spec(llm(tracing=values, metadata={"namespace": "team"}))
    assert result["tracing"] == {"endpoint": "http://otel:4317", "sampling": 0.25}
    # Spans have the attributes that KServe's controller gives them (tracing.go).
    env = {item["name"]: item for item in container(result["roles"][0])["env"]}
    assert env["OTEL_RESOURCE_ATTRIBUTES"]["value"] == (
        "k8s.namespace.name=team,k8s.node.name=$(OTEL_RESOURCE_ATTRIBUTES_NODE_NAME),"
        "k8s.pod.name=$(OTEL_RESOURCE_ATTRIBUTES_POD_NAME),llmisvc.name=llm"
    )
    service = {"name": "OTEL_RESOURCE_ATTRIBUTES", "value": "a=b"}
    result = to_spec(llm(tracing=values, template=pod(env=[service])))
    assert container(result["roles"][0])["env"][-1] == service
    assert reject(llm(tracing=values, template={"containers": ["x"]}))
    assert reject(llm(tracing=values, template=pod(env=["x"])))


def test_user_startup_probe_replaces_preset_timeout() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    assert to_spec(llm())["roles"][0]["startup"] == {"timeout": "10m"}
    assert "startup" not in to_spec(llm(template=pod(startupProbe=probe)))["roles"][0]
    complete = pod(command=["vllm", "serve"])
    assert to_spec(llm(template=complete))["roles"][0]["startup"] == {"timeout": "10m"}
    assert "startup" not in to_spec(llm(template=pod(command=["/app/simulator"])))["roles"][0]


def test_device_annotations_become_claims() -> None:
    values = {
        f"{DRA}device-class": "gpu.nvidia.com",
        f"{DRA}device-count": "2",
        f"{DRA}container-name": "main",
        f"{DRA}cel-selector": "device.attributes['a']['b'] == 'c'\n\ndevice.driver == 'd'\n",
    }
    metadata = {"annotations": values}
    one = pod(None, env=[ADDED])
    document = llm(metadata=metadata, template=one, prefill={"template": one}, router=ROUTER)
    claims = [role.get("resourceClaims") for role in to_spec(document)["roles"]]
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
def test_invalid_device_annotations_are_rejected(given: Manifest, field: str) -> None:
    metadata = {"annotations": {f"{DRA}{key}": value for key, value in given.items()}}
    message = reject(llm(metadata=metadata, template=pod(None)))
    assert message[0].startswith(f"f: metadata.annotations[{DRA}{field}]: ")


def test_stopped_service_is_scaled_to_zero() -> None:
    result = to_spec(llm(metadata={"annotations": {"serving.kserve.io/stop": "true"}}))
    assert [role["replicas"] for role in result["roles"]] == [0]


def test_stopped_service_keeps_its_route_and_has_no_autoscaler() -> None:
    document = llm(
        metadata={"annotations": {"serving.kserve.io/stop": "True"}},
        scaling={"minReplicas": 2, "maxReplicas": 4, "keda": {"triggers": [TRIGGER]}},
        router=ROUTER,
    )
    result = to_spec(document)
    main, router = result["roles"]
    assert (main["replicas"], "autoscaling" in main, "replicas" in router) == (0, False, False)
    assert result["layout"] == "PerRole"
    message = "scaling: ignored while the service is stopped"
    assert f"f: info: {message}" in check(document)


def test_workload_metadata_is_copied_to_pods() -> None:
    (role,) = to_spec(llm(labels={"app": "x"}, annotations={"note": "y"}))["roles"]
    assert role["template"]["metadata"] == {"labels": {"app": "x"}, "annotations": {"note": "y"}}


def test_configs_are_merged_below_the_service() -> None:
    below = config(
        "gpu",
        model={"uri": "hf://a/b"},
        replicas=4,
        template={
            "nodeSelector": {"pool": "gpu"},
            "containers": [
                {"name": "main", "image": "below", "env": [{"name": "A", "value": "1"}]},
                {"name": "beside", "image": "b"},
            ],
        },
    )
    between = config("more", template={"containers": [{"name": "main", "env": [
        {"name": "A", "value": "2"}, {"name": "B", "value": "3"}]}]})  # fmt: skip
    service = llm(baseRefs=[{"name": "gpu"}, {"name": "more"}], model={"uri": URI})
    result = to_spec(below, between, service)
    (role,) = result["roles"]
    assert (result["model"]["uri"], role["replicas"]) == (URI, 4)
    assert role["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert [item["name"] for item in role["template"]["spec"]["containers"]] == ["main", "beside"]
    assert container(role)["image"] == "below"
    env = [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]
    assert container(role)["env"] == [*PRESET["env"], *env]
    assert container(role)["resources"] == {"limits": {"nvidia.com/gpu": "1"}}


def test_config_templates_use_fields_of_the_service() -> None:
    word = "--x={{ .Spec.Model.Name }}/{{.ObjectMeta.Namespace}}/{{- .ObjectMeta.Name -}}"
    below = config("base", template=pod(command=["vllm", "serve"], args=[word]), router={
        "scheduler": {"replicas": 2}})  # fmt: skip
    service = llm(baseRefs=[{"name": "base"}], template=None, router={"scheduler": {}},
              model={"uri": URI, "name": "m"})  # fmt: skip
    role, route = to_spec(below, service)["roles"]
    assert "--x=m/default/llm" in container(role)["args"]
    assert route["endpointPicker"]["replicas"] == 2


def test_findings_about_merged_values_name_their_document() -> None:
    limits = {"limits": {"nvidia.com/gpu": "two"}}
    below = config("base", template={"containers": [{"name": "main", "resources": limits}]})
    service = llm(baseRefs=[{"name": "base"}], template=None)
    (message,) = reject(below, service)
    assert message.startswith("f: template.containers[0].resources.limits[nvidia.com/gpu]: "), (
        message
    )


NAMED_PRESET = {"name": "kserve-config-llm-template"}


def test_copied_script_of_a_preset_becomes_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    # The script of KServe's preset, shortened.
    script = 'eval "exec vllm serve /mnt/models --port 8000 ${VLLM_ADDITIONAL_ARGS} $@"'
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    command = ["/bin/bash", "-c", script, "--"]
    preset = config(NAMED_PRESET["name"], template={"containers": [
        {"name": "main", "image": "mine", "command": command}]})  # fmt: skip
    service = llm(template=pod(args=["--max-model-len=8192"]))
    assert container(to_spec(service, preset)["roles"][0])["command"] == command
    monkeypatch.setattr(presets, "_SCRIPTS", {digest})
    main = container(to_spec(service, preset)["roles"][0])
    assert (main["image"], main["command"]) == ("mine", ["vllm", "serve"])
    assert main["args"] == [*served(), "--max-model-len=8192"]
    assert "securityContext" not in main
    # The later config has KServe's script.
    own_program = config(NAMED_PRESET["name"], template={"containers": [
        {"name": "main", "image": "mine", "command": ["vllm", "serve", "x"]}]})  # fmt: skip
    script_config = config("base", template=preset["spec"]["template"])
    service["spec"]["baseRefs"] = [{"name": "base"}]
    main = container(to_spec(service, own_program, script_config)["roles"][0])
    assert main["args"] == [*served(), "--max-model-len=8192"]


def test_preset_in_another_namespace_replaces_nothing() -> None:
    service = llm(metadata={"namespace": "team"})
    replicas = {"replicas": 4}
    for namespace in (None, "kserve"):
        metadata = {"namespace": namespace} if namespace else {}
        preset = config(NAMED_PRESET["name"], metadata=metadata, **replicas)
        assert "replicas" not in to_spec(service, preset)["roles"][0]
        assert len(warn(service, preset)) == 1
    preset = config(NAMED_PRESET["name"], metadata={"namespace": "team"}, **replicas)
    (message,) = reject(service, preset)
    assert "image is required, because a config replaces KServe's preset" in message


def test_unused_config_and_preset_names_are_reported() -> None:
    documents = config("idle"), llm(baseRefs=[NAMED_PRESET])
    assert reject(*documents) == []
    message = "no LLMInferenceService of this input uses it; ignored"
    assert warn(*documents) == [f"f: warning: {message}"]


def test_findings_about_a_config_are_shown_with_its_service() -> None:
    below = config("base", replicas=4, model={"uri": "hf://a/b"})
    (document,) = read_source(below, llm(baseRefs=[{"name": "base"}], replicas=2)).planned_documents
    message = [str(finding) for _, finding in document.findings]
    assert "info: replicas: overridden by llm" in message
    assert "info: model.uri: overridden by llm" in message


def test_config_in_service_namespace_precedes_kserve_namespace() -> None:
    shared = config("gpu", replicas=4)
    shared["metadata"]["namespace"] = "kserve"
    service = llm(baseRefs=[{"name": "gpu"}], metadata={"namespace": "team"})
    assert to_spec(shared, service)["roles"][0]["replicas"] == 4
    nearer = config("gpu", replicas=2)
    nearer["metadata"]["namespace"] = "team"
    assert to_spec(shared, nearer, service)["roles"][0]["replicas"] == 2
    elsewhere = config("gpu")
    elsewhere["metadata"]["namespace"] = "other"
    (message,) = reject(elsewhere, service)
    assert "no LLMInferenceServiceConfig gpu in namespace team or kserve" in message


def spread(key: str, skew: int) -> Manifest:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}


@each_row(
    ("field", "below", "above", "merged"),
    [
        (
            "topologySpreadConstraints",
            [spread("zone", 1), spread("host", 1)],
            [spread("zone", 2), spread("rack", 1)],
            [spread("zone", 2), spread("host", 1), spread("rack", 1)],
        ),
        (
            "resourceClaims",
            [{"name": "nic", "resourceClaimName": "a"}],
            [{"name": "disk", "resourceClaimName": "b"}],
            [{"name": "nic", "resourceClaimName": "a"}, {"name": "disk", "resourceClaimName": "b"}],
        ),
        ("schedulingGates", [{"name": "a"}], [{"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        ("tolerations", [{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
    ],
)
def test_lists_are_merged_by_the_keys_of_kubernetes_types(
    field: str, below: list[Manifest], above: list[Manifest], merged: list[Manifest]
) -> None:
    service = llm(baseRefs=[{"name": "base"}], template={**pod(), field: above})
    (role,) = to_spec(config("base", template={field: below}), service)["roles"]
    assert role["template"]["spec"][field] == merged


def test_list_items_with_equal_keys_are_merged_and_reported() -> None:
    service = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
    below = config(
        "base", template={"containers": [{"name": "main", "ports": [{"containerPort": 1}]}]}
    )
    documents = below, llm(baseRefs=[{"name": "base"}], template=pod(ports=service))
    (role,) = to_spec(*documents)["roles"]
    assert container(role)["ports"] == [{"containerPort": 1}, service[1]]
    message = "overridden by a later item of the list, as KServe merges them"
    at = "f#2: info: template.containers[0].ports[0]"
    assert {f"{at}.containerPort: {message}", f"{at}.protocol: {message}"} <= set(check(*documents))


def test_volume_with_two_sources_is_rejected() -> None:
    below = config("base", template={"volumes": [{"name": "data", "emptyDir": {}}]})
    above = [{"name": "data", "hostPath": {"path": "/data"}}]
    (message,) = reject(
        below, llm(baseRefs=[{"name": "base"}], template={**pod(), "volumes": above})
    )
    assert message == (
        "f#2: template.volumes[0]: must have one source, got emptyDir and hostPath; "
        "remove one of them"
    )


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}}


TIERS = [
    {"fileSystem": {"emptyDir": {"size": "100Gi"}}},
    {"fileSystem": {"pvc": {"spec": CLAIM}}},
    {"fileSystem": {"pvc": {"ref": {"name": "shared", "path": "kv"}}}},
]


FULL = {"cpu": "10Gi", "evictionPolicy": "arc", "secondary": TIERS}


def test_offloading_tiers_are_copied() -> None:
    document = llm(kvCacheOffloading=FULL)
    (role,) = to_spec(document)["roles"]
    assert role["kvCacheOffloading"] == FULL


def test_workloads_have_separate_offloading() -> None:
    document = llm(kvCacheOffloading={"cpu": "1Gi"}, prefill={"template": pod(),
                   "kvCacheOffloading": {"cpu": "2Gi"}})  # fmt: skip
    # Without a connector between the two this is rejected, for that reason alone.
    assert not [problem for problem in reject(document) if "kvCacheOffloading" in problem]
    with_router = llm(kvCacheOffloading={"cpu": "1Gi"}, router={"scheduler": {}, "route": {}})
    result = {role["name"]: role.get("kvCacheOffloading") for role in to_spec(with_router)["roles"]}
    assert result == {"main": {"cpu": "1Gi"}, "router": None}


def test_quantities_may_be_numbers() -> None:
    disk = {"fileSystem": {"emptyDir": {"size": 2048}}}
    document = llm(kvCacheOffloading={"cpu": 1073741824, "secondary": [disk]})
    (role,) = to_spec(document)["roles"]
    assert role["kvCacheOffloading"] == {
        "cpu": "1073741824", "secondary": [{"fileSystem": {"emptyDir": {"size": "2048"}}}],
    }  # fmt: skip


def test_config_may_set_offloading() -> None:
    base = config("base", kvCacheOffloading={"cpu": "1Gi", "secondary": TIERS})
    document = llm(kvCacheOffloading={"cpu": "2Gi"}, baseRefs=[{"name": "base"}])
    (role,) = to_spec(base, document)["roles"]
    assert role["kvCacheOffloading"] == {"cpu": "2Gi", "secondary": TIERS}


def test_user_command_gets_offloading_arguments() -> None:
    document = llm(kvCacheOffloading={"cpu": "1Gi"}, template=pod(command=["vllm", "serve", "m"]),
                   model={"uri": "hf://m/m"})  # fmt: skip
    text = "f: info: kvCacheOffloading: KServe applies it only to the preset's command;"
    assert any(item.startswith(text) for item in check(document))
    assert not any(item.startswith(text) for item in check(llm(kvCacheOffloading={"cpu": "1Gi"})))


@each_row(
    ("more", "text"),
    [
        # KServe's script leaves its own setting out beside one in the arguments, in silence.
        ({"template": pod(args=["--kv-transfer-config", '\'{"kv_connector":"X"}\''])},
         "f: kvCacheOffloading: conflicts with --kv-transfer-config (X) in the arguments"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "secondary": [{}]}},
         "f: kvCacheOffloading.secondary[0]: must have exactly one of emptyDir"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "secondary": [{"fileSystem": {"pvc": {}}}]}},
         "f: kvCacheOffloading.secondary[0].fileSystem.pvc: must have exactly one of spec"),
        ({"kvCacheOffloading": {"secondary": TIERS}}, "f: kvCacheOffloading.cpu: is required"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "fifo"}},
         "f: kvCacheOffloading.evictionPolicy: must be one of lru, arc"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected(more: Any, text: str) -> None:
    matches = reject(llm(**{"kvCacheOffloading": {"cpu": "1Gi"}, **more}))
    assert any(item.startswith(text) for item in matches), matches


@each_row(
    ("uri", "account", "severity", "text"),
    [
        ("s3://b/m", None, "warning", "spec: KServe downloads with the credentials in"),
        ("hf://org/m", None, "info", "not set; KServe downloads with the credentials in"),
        ("hf://org/m", "reader", "warning", "of ServiceAccount reader, which is not in"),
        ("pvc://claim", "reader", None, "credentials"),
    ],
)
def test_credentials_that_are_not_in_the_input_are_reported(
    uri: str, account: str | None, severity: str | None, text: str
) -> None:
    template = {"serviceAccountName": account} if account else {}
    document = llm(model={"uri": uri}, template={**pod(), **template})
    matches = [
        str(finding) for _, finding in read_source(document).findings if text in str(finding)
    ]
    if severity is None:
        assert not matches
        return
    (finding,) = matches
    assert finding.startswith(f"{severity}: ")


def test_missing_secret_of_a_service_account_is_reported() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    document = llm(model={"uri": "s3://b/m"})
    matches = warn(document, {**account, "secrets": [{"name": "s3"}]})
    assert any("secrets[0].name: Secret s3 is not in this input" in finding for finding in matches)


def test_criticality_is_a_field_of_v1alpha1() -> None:
    adapters = [{"name": "a", "uri": "hf://a/b", "criticality": "Sheddable"}]
    model = {"uri": URI, "criticality": "Critical", "lora": {"adapters": adapters}}
    document = llm(model=model)
    places = ("model.criticality", "model.lora.adapters[0].criticality")
    assert reject(document) == [
        f"f: {place}: is a field of v1alpha1 only; remove it" for place in places
    ]
    document["apiVersion"] = "serving.kserve.io/v1alpha1"
    message = [item for item in check(document) if "criticality" in item]
    assert [item.split(": ")[1:3] for item in message] == [["info", place] for place in places]


def test_empty_uri_is_replaced_by_config() -> None:
    """As `kubectl get -o yaml` shows a service with `baseRefs`."""
    documents = (
        llm(model={"uri": "", "name": "m"}, baseRefs=[{"name": "base"}]),
        config(model={"uri": URI}),
    )
    assert to_spec(*documents)["model"] == {"uri": URI, "name": "m", "fetch": "InitContainer"}
    assert not any("model.uri" in line for line in check(*documents))
    assert reject(llm(model={"uri": ""})) == [
        "f: model: model.uri is required, here or in a config"
    ]


def test_group_and_weight_need_the_managed_route() -> None:
    service = {"group": "g", "weight": 10, "http": {"spec": {"hostnames": ["a.example.com"]}}}
    assert reject(llm(router={"route": service, "scheduler": {}})) == [
        (
            f"f: router.route.{field}: cannot be carried over: group and weight apply only to the "
            "preset's route; remove them, and list the backends of all members with weights in "
            "router.route.http.spec of one service"
        )
        for field in ("group", "weight")
    ]
