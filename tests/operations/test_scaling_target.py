"""`autoscaling.target`: metrics, thresholds and prerequisites."""

from __future__ import annotations

from typing import Any

import yaml
from routed import only
from rows import each_row
from samples import plan_of, problems, rendered, role, service

from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

Manifest = dict[str, Any]
PROMETHEUS = "http://p:9090"
ENGINES = 'namespace="default",fusioninfer_io_service="svc"'
PICKER = 'namespace="default",service="svc-epp"'
HELD = f"(sum(inference_extension_flow_control_queue_size{{{PICKER}}}) or vector(0))"
RUNNING = f"(sum(inference_objective_running_requests{{{PICKER}}}) or vector(0))"
READ = f"and on() (max(up{{{PICKER}}}) == 1)"
IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--enable-metrics"]


def keda(target: str | None, **more: Any) -> Manifest:
    return {"engine": "KEDA", "prometheus": PROMETHEUS, "target": target, "maxReplicas": 4, **more}


def router(**picker: Any) -> Manifest:
    return {
        "name": "router",
        "componentType": "router",
        "httproute": {"parentRefs": [{"name": "gateway"}]},
        "endpointPicker": {"metrics": "Authenticated", **picker},
    }


def serving(name: str, kind: str, autoscaling: Any, image: str = "vllm/vllm-openai:v0.32.0",
            **more: Any) -> Manifest:  # fmt: skip
    command = SGLANG if "sglang" in image else ["vllm", "serve", "m"]
    command = ["serve"] if "other" in image else command
    container = {
        "name": "engine", "image": image, "command": command,
        "ports": [{"containerPort": 30000 if "sglang" in image else 8000}],
    }  # fmt: skip
    return role(
        name, kind, autoscaling=autoscaling, template={"spec": {"containers": [container]}}, **more
    )


def scaled(autoscaling: Manifest, *roles: Manifest, **spec: Any) -> Manifest:
    worker = serving("inference", "worker", autoscaling)
    return service(*roles, worker, **{"monitoring": {}, **spec})


def triggers(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Return query and threshold of the ScaledObject's triggers, by name."""
    assert problems(manifest) == []
    triggers = only(manifest, "ScaledObject")["spec"]["triggers"]
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in triggers)
    return {
        trigger["name"]: (trigger["metadata"]["query"], trigger["metadata"]["threshold"])
        for trigger in triggers
    }


def test_latency_follows_requests_in_flight() -> None:
    assert triggers(scaled(keda("latency"))) == {
        "in-flight": (" + ".join(f"sum({name}{{{ENGINES}}})" for name in IN_FLIGHT), "100")
    }
    (_, value) = triggers(scaled(keda("latency", targetRequests=32)))["in-flight"]
    assert value == "32"


def latency_query(metric: str, matchers: str, goal: str) -> str:
    decodes = f'{ENGINES},fusioninfer_io_component_type=~"worker|decoder"'
    replicas = f"count(count by (pod) (vllm:num_requests_running{{{decodes}}}))"
    buckets = f"sum by (le) (rate({metric}_bucket{{{matchers}}}[2m]))"
    latency = f"(histogram_quantile(0.9, {buckets}) > 0 or vector(0))"
    wanted = f"{replicas} * clamp_max({latency} / {goal}, 2)"
    return f"clamp_min({wanted}, scalar(floor({replicas} * 0.8)))"


def test_latency_goals_replace_requests_in_flight() -> None:
    goals = keda("latency", timeToFirstToken="1500ms", timePerToken="50ms")
    per_token = (latency_query("vllm:inter_token_latency_seconds", ENGINES, "0.05"), "1")
    assert triggers(scaled(goals)) == {
        "first-token": (latency_query("vllm:time_to_first_token_seconds", ENGINES, "1.5"), "1"),
        "per-token": per_token,
    }
    # The endpoint picker's latency includes the time in its queue.
    picker = router(serviceLevels={"levels": [{"name": "chat", "priority": 1}]})
    streamed = f'{PICKER},streaming="true",priority!~"-.*"'
    assert triggers(scaled(goals, picker)) == {
        "first-token": (latency_query("llm_d_epp_request_ttft_seconds", streamed, "1.5"), "1"),
        "per-token": per_token,
    }
    from_zero = triggers(scaled({**goals, "minReplicas": 0, "targetRequests": 7}, router()))
    assert from_zero.keys() == {"in-flight", "first-token", "per-token"}
    assert from_zero["in-flight"][1] == "7"


def test_throughput_target_follows_waiting_requests_and_kv_cache() -> None:
    decodes = f'{ENGINES},fusioninfer_io_component_type=~"worker|decoder"'
    assert triggers(scaled(keda("throughput"))) == {
        "waiting": (f"sum(vllm:num_requests_waiting{{{ENGINES}}})", "5"),
        "kv-cache": (f"sum(vllm:kv_cache_usage_perc{{{decodes}}})", "0.8"),
    }


def test_queries_name_metrics_of_engine() -> None:
    manifest = scaled({})
    image = "lmsysorg/sglang:v0.5.4"
    manifest["spec"]["roles"] = [serving("inference", "worker", keda("throughput"), image)]
    (query, _) = triggers(manifest)["kv-cache"]
    assert query.startswith("sum(sglang:token_usage{")


def test_scaling_from_zero_follows_queued_requests() -> None:
    manifest = scaled(keda("throughput", minReplicas=0), router())
    result = triggers(manifest)
    assert result["in-flight"] == (f"({HELD} + {RUNNING}) {READ}", "100")
    # Without pods there are no engine metrics, which would be an error.
    waiting = f"(sum(vllm:num_requests_waiting{{{ENGINES}}}) or vector(0))"
    assert result["waiting"][0] == f"({HELD} + {waiting}) {READ}"
    assert triggers(scaled(keda("latency", minReplicas=0), router())) == {
        "in-flight": result["in-flight"]
    }
    # The picker queues requests only if no pod can accept them; other requests wait in engines.
    assert triggers(scaled(keda("queue"), router()))["waiting"] == (result["waiting"][0], "5")


def config(manifest: Manifest) -> Any:
    (item,) = (entry for entry in rendered(manifest) if entry["kind"] == "ConfigMap")
    return yaml.safe_load(item["data"]["config.yaml"])


def test_target_that_needs_a_queue_enables_flow_control() -> None:
    manifest = scaled(keda("latency", minReplicas=0), router())
    assert config(manifest)["featureGates"] == ["flowControl"]
    epp = plan_of(manifest).picker.epp
    assert epp.image.endswith(":v1.5.0")
    for awake in (scaled(keda("latency"), router()), service(router(), role())):
        assert "featureGates" not in config(awake)
        assert plan_of(awake).picker.epp.image.endswith(":v1.2.1")
    requests = scaled(keda("latency"), router(flowControl=True))
    assert config(requests)["featureGates"] == ["flowControl"]
    # The timeout would end requests after a minute, before most models have loaded.
    newest = router(image="ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0")
    waiting = config(scaled(keda("latency", minReplicas=0), newest))
    assert waiting["flowControl"] == {"defaultRequestTTL": "0s"}


@each_row("family", [name for name, row in FAMILIES.items() if row.flow_control_metrics])
def test_each_family_with_flow_control_accepts_its_configuration(family: str) -> None:
    row = FAMILIES[family]
    manifest = scaled(keda("queue", minReplicas=0), router(family=family))
    assert row.flow_control_metrics is not None
    assert row.flow_control_metrics.queued in triggers(manifest)["waiting"][0]


def pair(prefill: int, decode: int, **more: Any) -> Manifest:
    target = keda("throughput", maxReplicas=8, **more)
    minima = {"minRoleReplicas": {"prefill": 1, "decode": 1}}
    return service(
        serving("prefill", "prefiller", target, replicas=prefill),
        serving("decode", "decoder", target, replicas=decode),
        monitoring={},
        schedulingStrategy={"gangPolicy": minima},
    )


def test_prefill_and_decode_keep_their_ratio() -> None:
    manifest = pair(1, 4)
    assert problems(manifest) == []
    result = {
        item["metadata"]["name"]: [
            (trigger["metadata"]["query"], float(trigger["metadata"]["threshold"]))
            for trigger in item["spec"]["triggers"]
        ]
        for item in rendered(manifest)
        if item["kind"] == "ScaledObject"
    }
    prefill, decode = result["svc-prefill"], result["svc-decode"]
    assert [query for query, _ in prefill] == [query for query, _ in decode]
    assert [value for _, value in decode] == [5, 0.8]
    assert [value for _, value in prefill] == [20, 3.2]


def test_hpa_follows_external_metrics_of_the_service() -> None:
    manifest = scaled({"target": "throughput", "maxReplicas": 4})
    assert problems(manifest) == []
    metrics = only(manifest, "HorizontalPodAutoscaler")["spec"]["metrics"]
    selector = {"matchLabels": {"fusioninfer_io_service": "svc"}}
    assert metrics == [
        {
            "type": "External",
            "external": {
                "metric": {"name": name, "selector": selector},
                "target": {"type": "AverageValue", "averageValue": value},
            },
        }
        for name, value in (
            ("fusioninfer_requests_waiting", "5"),
            ("fusioninfer_kv_cache_usage", "0.8"),
        )
    ]


@each_row(
    ("manifest", "problem"),
    [
        (scaled({"maxReplicas": 4}), "roles[0].autoscaling: needs target, metrics or"),
        (scaled({"maxReplicas": 4, "targetRequests": 2, "metrics": [{"name": "a", "target": 1}]}),
         "roles[0].autoscaling.targetRequests: has no effect without target"),
        (scaled(keda("latency"), monitoring=None), "monitoring: is required with autoscaling.targ"),
        (scaled(keda("latency"), monitoring={"engines": False}), "monitoring: is required with"),
        (scaled(keda("latency"), groups=2), "autoscaling.target: is one number for all serv"),
        (scaled({"target": "queue", "maxReplicas": 4}, router()), "requires engine KEDA, because"),
        (scaled(keda("queue", timePerToken="1s")), "timePerToken: has no effect: requires target"),
        (scaled(keda("latency", timePerToken="1s", targetRequests=1)),
         "targetRequests: has no effect: timeToFirstToken"),
        (scaled({"target": "latency", "maxReplicas": 4, "timePerToken": "1s"}),
         "timePerToken: belongs to engine KEDA"),
        (scaled(keda("latency", timeToFirstToken="1s"), router(flowControl=True, metrics="Off")),
         "endpointPicker.metrics: is required: autoscaling reads"),
        (scaled(keda("queue")), "autoscaling.target: requires a router role: the endpoint picker"),
        (scaled(keda("latency", minReplicas=0)), "autoscaling.target: requires a router role"),
        (scaled(keda("queue"), router(family="gaie-1.2")), "gaie-1.2 cannot queue requests: it"),
        (service(router(flowControl=True, family="gaie-1.2"), role()), "gaie-1.2 cannot queue"),
        (service({**router(flowControl=True), "endpointPickerConfig": "plugins: []"}, role()),
         "flowControl: has no effect: endpointPickerConfig replaces it"),
        (scaled(keda("queue"), {**router(), "endpointPickerConfig": "plugins: []"}),
         "endpointPickerConfig: requires featureGates: [flowControl], because role \"inference\""),
        (scaled(keda("queue"), router(metrics="Off")), "endpointPicker.metrics: is required: auto"),
        (scaled(keda("queue"), router(), monitoring={"picker": False}), "picker: cannot be false"),
        (scaled(keda("queue"), router(flowControl=False)), "flowControl: cannot be false: "),
        (service(router(), *pair(1, 1, minReplicas=0)["spec"]["roles"], monitoring={}),
         "does not work with prefill and decode"),
        (service(serving("inference", "worker", keda("latency"), "other/engine:1"), monitoring={}),
         "requires one engine for all roles, vLLM or SGLang"),
    ],
)  # fmt: skip
def test_invalid_scaling_target_is_rejected(manifest: Manifest, problem: str) -> None:
    assert any(problem in item for item in problems(manifest)), problems(manifest)


def guarded(query: str, monitoring: Any = None, **policy: Any) -> Manifest:
    """Return a role scaled by a query, whose NetworkPolicies admit only the gateway."""
    policies = {**router(), "networkPolicy": {"gatewayNamespace": "gateways", **policy}}
    autoscaling = keda(None, metrics=[{"query": query, "target": 5}])
    return scaled(autoscaling, policies, monitoring=monitoring)


PROMETHEUS_PODS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "m"}}}]


@each_row(
    ("manifest", "is_hidden"),
    [
        (guarded('sum(vllm:num_requests_waiting{pod="a"})'), True),
        (guarded('sum(vllm:num_requests_waiting{pod="a"})', metrics=PROMETHEUS_PODS), False),
        (guarded('sum(vllm:num_requests_waiting{pod="a"})', enabled=False), False),
        (guarded('sum(envoy_requests{pod="a"})'), False),
    ],
)
def test_metrics_blocked_by_network_policies_are_reported(
    manifest: Manifest, *, is_hidden: bool
) -> None:
    message = "roles[0].networkPolicy: blocks Prometheus, so autoscaling does not see vllm:"
    assert any(problem.startswith(message) for problem in problems(manifest)) is is_hidden
