"""KServe's routers: routes, Gateways, schedulers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from profiles import slow_unless
from rows import each_row
from samples import rendered

from importers.tests.kserve_samples import ROUTER, Manifest, config, llm, pod
from importers.tests.reads import check, convert, reject, to_spec, warn

KSERVE_GATEWAY = {"name": "kserve-ingress-gateway", "namespace": "kserve"}


def router(*documents: Manifest) -> Manifest:
    (item,) = (role for role in to_spec(*documents)["roles"] if role["componentType"] == "router")
    return dict(item)


def test_managed_route_has_paths_of_kserve() -> None:
    result = router(llm(router=ROUTER, metadata={"namespace": "team"}))
    assert result["gateway"] == {"refs": [KSERVE_GATEWAY]}
    first, *_, last = result["httproute"]["rules"][:5]
    assert first["matches"] == [
        {"path": {"type": "PathPrefix", "value": "/team/llm/v1/completions"}}
    ]
    assert first["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] == "/v1/completions"
    assert last["matches"][0]["path"]["value"] == "/team/llm"


def test_managed_route_is_reached_by_the_qualified_model_name() -> None:
    model = {"uri": "hf://Qwen/Qwen3-8B", "name": "qwen"}
    rules = router(llm(router=ROUTER, model=model))["httproute"]["rules"][5:]
    paths = [rule["matches"][0]["path"]["value"] for rule in rules[:5]]
    prefix = "publishers/default/models/qwen"
    assert (paths[0], paths[-1]) == (f"/{prefix}/v1/completions", f"/{prefix}")
    header = {"type": "Exact", "name": "X-Gateway-Model-Name", "value": prefix}
    endpoints, other_items = rules[5:]
    assert other_items["matches"] == [{"headers": [header]}]
    assert endpoints["matches"][0] == {
        "path": {"type": "Exact", "value": "/v1/completions"},
        "headers": [header],
    }
    assert len(endpoints["matches"]) == 8


def test_annotation_disables_header_rule_of_managed_route() -> None:
    annotations = {"serving.kserve.io/model-based-routing-enabled": "false"}
    rules = router(llm(router=ROUTER, annotations=annotations))["httproute"]["rules"]
    assert not any("headers" in match for rule in rules for match in rule["matches"])


PARENTS = [{"name": "shared", "namespace": "gateways"}]


@each_row(
    ("block", "gateway"),
    [
        ({}, {"refs": [KSERVE_GATEWAY]}),
        ({"gateway": {}}, {"refs": [KSERVE_GATEWAY]}),
        ({"parents": PARENTS}, None),
        ({"parents": PARENTS, "gateway": {}}, None),
        ({"parents": PARENTS, "gateway": {"refs": [KSERVE_GATEWAY]}}, {"refs": [KSERVE_GATEWAY]}),
    ],
)
def test_route_spec_attaches_to_default_gateway_of_kserve(
    block: Manifest, gateway: Manifest | None
) -> None:
    rules = [{"matches": [{"path": {"value": "/"}}]}]
    parents = {"parentRefs": block["parents"]} if "parents" in block else {}
    fields = {"gateway": block["gateway"]} if "gateway" in block else {}
    result = router(
        llm(router={"route": {"http": {"spec": {"rules": rules, **parents}}}, **fields})
    )
    assert result.get("gateway") == gateway
    assert result["httproute"].get("parentRefs") == (None if gateway else PARENTS)


def test_gateway_references_and_user_route_are_copied() -> None:
    refs = [{"name": "my-custom-gateway", "namespace": "istio-system"}]
    fields = {"hostnames": ["llm.example.com"], "rules": [{"matches": [{"path": {"value": "/"}}]}]}
    result = router(
        llm(router={**ROUTER, "route": {"http": {"spec": fields}}, "gateway": {"refs": refs}})
    )
    assert (result["gateway"], result["httproute"]) == ({"refs": refs}, fields)


def test_route_references_are_copied() -> None:
    document = llm(router={"route": {"http": {"refs": [{"name": "r"}]}}, "scheduler": {}})
    result = router(document)
    assert result["httproute"] == {"refs": [{"name": "r"}]}
    assert "gateway" not in result
    (expected,) = (item for item in warn(document) if "router.route.http.refs: " in item)
    assert expected.endswith(
        "set the route's backendRefs to InferencePool llm-pool, or no request arrives"
    )


def grouped(name: str, weight: int | None, model: str = "m") -> Manifest:
    """A service of the routing group `chat`."""
    shares = {"group": "chat", **({} if weight is None else {"weight": weight})}
    named = {"uri": "hf://Qwen/Qwen2.5-7B-Instruct", "name": model}
    return llm(name, model=named, router={**ROUTER, "route": shares})


def shared_rules(*documents: Manifest) -> dict[str, list[Any]]:
    """Return first path, last path and weights of the weighted rules, by service name."""
    result = {}
    for built in convert(*documents):
        *_, route = built["spec"]["roles"]
        rules = [
            rule
            for rule in route["httproute"]["rules"]
            if any("weight" in ref for ref in rule.get("backendRefs", ()))
        ]
        if rules:
            refs = {ref["name"]: ref["weight"] for ref in rules[0]["backendRefs"]}
            paths = [rule["matches"][0]["path"]["value"] for rule in rules]
            result[built["metadata"]["name"]] = [paths[0], paths[-1], refs]
    return result


def test_group_splits_requests_by_weight() -> None:
    documents = grouped("next", 10), grouped("base", 90), grouped("off", None)
    prefix = "/publishers/default/models/m"
    assert shared_rules(*documents) == {
        "base": [
            f"{prefix}/v1/completions",
            prefix,
            {"base-pool": 90, "next-pool": 10, "off-pool": 0},
        ]
    }
    expected = "\n".join(check(*documents))
    assert f"requests to {prefix}: base 90, next 10, off 0" in expected
    assert expected.count("the route of base splits requests to") == 2


def test_group_splits_only_between_equal_model_names() -> None:
    documents = grouped("base", 90), grouped("other", 10, model="n")
    result = shared_rules(*documents)
    assert result["base"][2] == {"base-pool": 90}
    assert result["other"][0].startswith("/publishers/default/models/n/")
    assert any("those of other differ from m" in line for line in check(*documents))


def test_group_without_weight_above_0_is_rejected() -> None:
    errors = reject(grouped("base", 0), grouped("next", None))
    assert any("at least one member needs a we" in line for line in errors)


def test_group_members_of_one_name_are_rejected() -> None:
    errors = reject(grouped("base", 90), grouped("base", 10))
    assert any("another service in this namespace has the name" in line for line in errors)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"baseRefs": [{"name": "b", "namespace": "n"}]}, "baseRefs[0].namespace"),
        (
            {"router": {"route": {"http": {"refs": [{"name": "r", "namespace": "n"}]}}}},
            "router.route.http.refs[0].namespace",
        ),
        (
            {"router": {"route": {"http": {"refs": [{"name": "r", "sectionName": "s"}]}}}},
            "router.route.http.refs[0].sectionName",
        ),
    ],
)
def test_unknown_fields_of_references_are_rejected(more: Manifest, field: str) -> None:
    assert f"f: {field}: unknown key" in "\n".join(reject(llm(**more)))


POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llm-pool"}
BEHIND = {"kind": "Service", "name": "llm", "port": 8000}


LONG = "a-service-with-a-name-that-is-very-very-long"


@pytest.mark.parametrize(
    ("fields", "ours"),
    slow_unless(lambda row: LONG in row[1]["name"] or "weight" in row[1], [
        ({"group": "inference.networking.k8s.io", "kind": "InferencePool",
          "name": "llm-inference-pool", "port": 8000, "weight": 1}, {**POOL, "weight": 1}),
        ({"group": "inference.networking.x-k8s.io", "kind": "InferencePool",
          "name": "llm-inference-pool"}, POOL),
        ({"kind": "Service", "name": "llm-kserve-workload-svc", "port": 8000}, POOL),
        ({"name": "llm-kserve-workload-svc", "namespace": "default"},
         {**POOL, "namespace": "default"}),
        # Knative's ChildName, which shortens long names.
        ({"name": "a-service-w9f7f1f624e76589e570cba3f85ed4928-kserve-workload-svc"},
         {**POOL, "name": f"{LONG}-pool"}),
        ({"kind": "InferencePool", "name": "other-inference-pool"}, {**POOL, "name": "other-pool"}),
    ]),
)  # fmt: skip
def test_backends_of_kserve_become_our_pool(fields: Manifest, ours: Manifest) -> None:
    mirrored = {key: value for key, value in fields.items() if key != "weight"}
    mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": mirrored}}
    overrides = {"rules": [{"backendRefs": [fields], "filters": [mirror]}]}
    name = LONG if LONG in ours["name"] else "llm"
    document = llm(name, router={**ROUTER, "route": {"http": {"spec": overrides}}})
    documents = (document, llm("other", router=ROUTER))
    (item, _) = convert(*documents)
    (rule,) = item["spec"]["roles"][-1]["httproute"]["rules"]
    assert rule["backendRefs"] == [ours]
    pool = {key: value for key, value in ours.items() if key != "weight"}
    assert rule["filters"][0]["requestMirror"]["backendRef"] == pool
    expected = "f: info: router.route.http.spec.rules[0].backendRefs[0]: KServe's "
    assert any(message.startswith(expected) for message in check(*documents))
    assert not any("requests fail unless it exists already" in entry for entry in warn(*documents))


@pytest.mark.parametrize(
    "fields",
    [
        {"group": "inference.networking.k8s.io", "kind": "InferencePool",
         "name": "llm-inference-pool", "weight": 2},
        {"name": "llm-kserve-workload-svc", "port": 8000, "weight": 2},
    ],
)  # fmt: skip
def test_backends_of_kserve_become_our_service_without_a_scheduler(fields: Manifest) -> None:
    route = {"http": {"spec": {"rules": [{"backendRefs": [fields]}]}}}
    (rule,) = router(llm(router={"route": route}))["httproute"]["rules"]
    assert rule["backendRefs"] == [{**BEHIND, "weight": 2}]


def test_group_members_without_scheduler_get_services_as_backends() -> None:
    members = [grouped("llm", 9), grouped("next", 1)]
    del members[0]["spec"]["router"]["scheduler"]
    item, _ = (dict(entry) for entry in convert(*members))
    rules = item["spec"]["roles"][-1]["httproute"]["rules"]
    shared = [rule["backendRefs"] for rule in rules if "weight" in str(rule)]
    pool = {**POOL, "name": "next-pool", "weight": 1}
    assert shared[0] == [{**BEHIND, "weight": 9}, pool]


def test_user_route_has_no_timeout() -> None:
    fields = {"rules": [{"backendRefs": [{"kind": "InferencePool", "name": "llm-inference-pool"}]}]}
    (rule,) = [
        rule
        for manifest in rendered(
            *convert(llm(router={**ROUTER, "route": {"http": {"spec": fields}}}))
        )
        if manifest["kind"] == "HTTPRoute"
        for rule in manifest["spec"]["rules"]
    ]
    assert (rule["backendRefs"], rule["timeouts"]) == ([POOL], {"request": "0s"})


@pytest.mark.parametrize(
    "ref",
    [
        {"kind": "InferencePool", "name": "elsewhere-inference-pool"},
        {"name": "guard", "port": 80},
        {"kind": "InferencePool", "name": "llm-inference-pool", "namespace": "other"},
        # Without a router no pool is made for it.
        {"kind": "InferencePool", "name": "bare-inference-pool"},
    ],
)
def test_unknown_backends_of_kserve_are_reported(ref: Manifest) -> None:
    fields = {"rules": [{"backendRefs": [ref]}]}
    documents = (llm(router={**ROUTER, "route": {"http": {"spec": fields}}}), llm("bare"))
    assert (
        "f: warning: router.route.http.spec.rules[0].backendRefs[0].name: this input creates no "
        f"{ref.get('kind', 'Service')} {ref['name']}; requests fail unless it exists already"
    ) in warn(*documents)


@pytest.mark.parametrize("gateway", [{}, {"gateway": {}}, {"gateway": None}])
def test_route_without_gateway_attaches_to_default_gateway_of_kserve(gateway: Manifest) -> None:
    document = llm(router={"route": {}, "scheduler": {}, **gateway})
    assert router(document)["gateway"] == {"refs": [KSERVE_GATEWAY]}
    based = llm(baseRefs=[{"name": "base"}]), config(router=document["spec"]["router"])
    assert router(*based)["gateway"] == {"refs": [KSERVE_GATEWAY]}
    assert "Gateway" not in {manifest["kind"] for manifest in rendered(*convert(document))}
    cause = "has no refs" if gateway.get("gateway") == {} else "not set"
    assert (
        f"f: info: router.gateway: {cause}; the route attaches to kserve/kserve-ingress-gateway"
    ) in check(document)


@pytest.mark.parametrize("form", ["mapping", "text"])
def test_inline_picker_configuration_is_copied(form: str) -> None:
    plugins = {"plugins": [{"type": "queue-scorer"}]}
    value: Any = plugins if form == "mapping" else "plugins:\n- type: queue-scorer\n"
    result = router(
        llm(router={**ROUTER, "scheduler": {"config": {"inline": value}, "replicas": 2}})
    )
    assert result["endpointPickerConfig"] == "plugins:\n- type: queue-scorer\n"
    assert result["endpointPicker"]["replicas"] == 2
    assert "scorers" not in result


def test_scheduler_template_becomes_picker_pods() -> None:
    template = {
        "nodeSelector": {"a": "b"},
        "containers": [
            {"name": "main", "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
             "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}},
        ],
    }  # fmt: skip
    result = router(
        llm(router={**ROUTER, "scheduler": {"template": template, "labels": {"x": "y"}}})
    )
    assert result["endpointPicker"] == {
        "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
        "resources": {
            "limits": {"cpu": "1", "memory": "16Gi"},
            "requests": {"cpu": 1, "memory": "2Gi"},
        },
        "template": {
            "metadata": {"labels": {"x": "y"}},
            "spec": {
                "nodeSelector": {"a": "b"},
                "containers": [{"name": "epp", "env": [{"name": "A", "value": "b"}]}],
            },
        },
    }


def test_picker_flags_of_kserve_presets_are_dropped() -> None:
    value = ["--pool-name", "llm-inference-pool", "--grpc-port=9002", "--v", "4",
             "--cert-path", "/var/run/kserve/tls"]  # fmt: skip
    main = {"name": "main", "args": value}
    document = llm(router={"route": {}, "scheduler": {"template": {"containers": [main]}}})
    assert router(document)["endpointPicker"]["args"] == ["--v", "4"]
    expected = [message for message in check(document) if "ignored" in message]
    assert [item.split(": ")[2] for item in expected] == [
        f"router.scheduler.template.containers[0].args[{index}]" for index in (0, 2, 5)
    ]


CERTIFICATES = "{{ ChildName .ObjectMeta.Name `-kserve-self-signed-certs` }}"
#: config/llmisvcconfig/config-llm-scheduler.yaml of KServe, shortened.
SCHEDULER_PRESET: Manifest = {
    "pool": {
        "spec": {
            "endpointPickerRef": {
                "failureMode": "FailOpen",
                "kind": "Service",
                "name": "{{ ChildName .ObjectMeta.Name `-epp-service` }}",
                "port": {"number": 9002},
            },
            "selector": {
                "matchLabels": {
                    "app.kubernetes.io/name": "{{ .ObjectMeta.Name }}",
                    "app.kubernetes.io/part-of": "llminferenceservice",
                    "kserve.io/component": "workload",
                }
            },
            "targetPorts": [{"number": 8000}],
        }
    },
    "template": {
        "containers": [
            {
                "name": "main",
                "command": [
                    "/app/epp", "--pool-name", "{{ ChildName .ObjectMeta.Name `-inference-pool` }}",
                    "--zap-encoder", "json", "--v", "4",
                    "{{ if .GlobalConfig.EnableTLS }}--secure-serving=true{{- end }}",
                ],
                "volumeMounts": [{"mountPath": "/var/run/kserve/tls", "name": "tls-certs"}],
            }
        ],
        "volumes": [
            {
                "name": "tls-certs",
                "secret": {"secretName": CERTIFICATES},
            }
        ],
    },
}  # fmt: skip


def test_plugin_with_an_address_needs_no_tokenizer() -> None:
    plugin = {"type": "token-producer", "parameters": {"vllm": {"url": "http://t:8000"}}}
    inline = {"plugins": [plugin]}
    result = router(llm(router={**ROUTER, "scheduler": {"config": {"inline": inline}}}))
    assert "template" not in result["endpointPicker"]
    assert yaml.safe_load(result["endpointPickerConfig"])["plugins"] == [plugin]


@pytest.mark.parametrize(
    ("uri", "scheduler", "message"),
    [
        (
            "s3://bucket/model",
            {},
            'the tokenizer reads models of hf:// and pvc://, got "s3://bucket/model"',
        ),
        (
            "hf://org/model",
            {"template": {"containers": [{"name": "main", "image": "private/epp:v1"}]}},
            "the tokenizer needs the endpoint picker of llm-d 0.9 or 0.10",
        ),
        (
            "hf://org/model",
            {"tokenizer": {"template": {"containers": [{"name": "main", "command": ["a"]}]}}},
            "tokenizer.template.containers[0].command[0]: cannot be carried over",
        ),
    ],
)
def test_tokenizer_that_cannot_be_deployed_is_rejected(
    uri: str, scheduler: Manifest, message: str
) -> None:
    inline = {"plugins": [{"type": "token-producer"}]}
    parts = {**ROUTER, "scheduler": {"config": {"inline": inline}, **scheduler}}
    findings = reject(llm(model={"uri": uri, "name": "m"}, router=parts))
    assert len([finding for finding in findings if message in finding]) == 1, findings


def test_pool_of_the_older_preset_is_accepted() -> None:
    name = "{{ ChildName .ObjectMeta.Name `-epp-service` }}"
    reference = {"failureMode": "FailOpen", "kind": "Service", "name": name}
    pool = {"spec": {"extensionRef": reference, "selector": {}, "targetPortNumber": 8000}}
    assert reject(llm(router={**ROUTER, "scheduler": {"pool": pool}})) == []
    pool["spec"]["targetPortNumber"] = 9000
    (problem,) = reject(llm(router={**ROUTER, "scheduler": {"pool": pool}}))
    assert "pool.spec.targetPortNumber: cannot be carried over" in problem


def test_scheduler_preset_is_accepted_as_a_config() -> None:
    name = "kserve-config-llm-scheduler"
    service = llm(router={"route": {}}, baseRefs=[{"name": name}])
    result = router(service, config(name, router={"scheduler": SCHEDULER_PRESET}))
    picker = result["endpointPicker"]
    assert picker["args"] == ["--v", "4"]
    assert "tls-certs" not in str(picker)


def test_tokenizer_preset_is_accepted_as_a_config() -> None:
    # config/llmisvcconfig/config-llm-tokenizer.yaml of KServe, shortened.
    script = (
        "exec vllm launch render /mnt/models/base \\\n  --port=8000 \\\n"
        "  {{ if .GlobalConfig.EnableTLS }}--enable-ssl-refresh{{ end }}"
    )
    container = {
        "name": "main",
        "image": "vllm:mine",
        "command": ["/bin/bash", "-c", script],
        "args": [],
        "ports": [{"name": "render-http", "containerPort": 8000, "protocol": "TCP"}],
    }
    pod = {"containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always"}
    preset = {"template": {**pod, "automountServiceAccountToken": False}}
    name = "kserve-config-llm-tokenizer"
    service = llm(router=ROUTER, model={"uri": "hf://org/model"}, baseRefs=[{"name": name}])
    documents = service, config(name, router={"scheduler": {"tokenizer": preset}})
    (sidecar,) = router(*documents)["endpointPicker"]["template"]["spec"]["containers"]
    assert sidecar["image"] == "vllm:mine"
    assert sidecar["command"] == ["vllm", "launch", "render", "org/model", "--port=8002"]
    container["command"] = ["/bin/bash", "-c", f"prepare; {script}"]
    assert len(reject(*documents)) == 3


def test_configuration_in_flags_becomes_picker_configuration() -> None:
    main = {"name": "main", "args": ["--v=4", "--config-text", TEXT]}
    scheduler: Manifest = {"template": {"containers": [main]}}
    result = router(llm(router={"route": {}, "scheduler": scheduler}))
    assert result["endpointPickerConfig"] == TEXT
    assert result["endpointPicker"]["args"] == ["--v=4"]
    other = "plugins: []\n"
    both = {**scheduler, "config": {"inline": other}}
    assert router(llm(router={"route": {}, "scheduler": both}))["endpointPickerConfig"] == other


TEXT = "plugins:\n- type: queue-scorer\n"


def config_map(name: str = "picker", metadata: Any = None, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})},
            "data": data}  # fmt: skip


def referring(**reference: Any) -> Manifest:
    value = {"name": "picker", **reference}
    return llm(router={"route": {}, "scheduler": {"config": {"ref": value}}})


@pytest.mark.parametrize(
    ("reference", "data"),
    [({}, {"epp": TEXT}), ({"key": "mine.yaml"}, {"mine.yaml": TEXT}),
     ({"key": "epp", "optional": False}, {"epp": TEXT})],
)  # fmt: skip
def test_config_map_becomes_configuration(reference: Manifest, data: dict[str, str]) -> None:
    result = router(referring(**reference), config_map(**data))
    assert result["endpointPickerConfig"] == TEXT
    assert "scorers" not in result


def test_config_may_reference_a_config_map() -> None:
    base = config("base", router={"scheduler": {"config": {"ref": {"name": "picker"}}}})
    document = llm(router={"route": {}, "scheduler": {}}, baseRefs=[{"name": "base"}])
    assert router(config_map(epp=TEXT), base, document)["endpointPickerConfig"] == TEXT


def test_shared_config_maps_are_found_in_kserve_namespace() -> None:
    shared = config_map("config-scheduler-x", metadata={"namespace": "kserve"}, epp=TEXT)
    document = referring(name="config-scheduler-x")
    assert router(document, shared)["endpointPickerConfig"] == TEXT
    user_config_map = config_map("config-scheduler-x", epp="plugins: []\n")
    assert router(document, shared, user_config_map)["endpointPickerConfig"] == "plugins: []\n"
    # A config in KServe's namespace refers to a ConfigMap in the service's namespace.
    base = config("base", router={"scheduler": {"config": {"ref": {"name": "picker"}}}})
    base["metadata"]["namespace"] = "kserve"
    document = llm(router={"route": {}, "scheduler": {}}, baseRefs=[{"name": "base"}])
    assert router(config_map(epp=TEXT), base, document)["endpointPickerConfig"] == TEXT


def test_unused_keys_of_a_config_map_are_reported() -> None:
    labeled = config_map(metadata={"labels": {"a": "b"}}, epp=TEXT, other="x")
    expected = [
        message for message in check(referring(), labeled) if message.startswith("f#2: info")
    ]
    assert expected == [
        f"f#2: info: {field}: is not referenced by the scheduler's config.ref; ignored"
        for field in ("metadata.labels.a", "data.other")
    ]


@each_row(
    ("documents", "why"),
    [
        ([referring()],
         "f: router.scheduler.config.ref: cannot be carried over: ConfigMap picker of "),
        ([referring(), config_map(metadata={"namespace": "other"}, epp=TEXT)],
         "f: router.scheduler.config.ref: cannot be carried over: ConfigMap picker"),
        ([referring(), config_map(metadata={"namespace": "kserve"}, epp=TEXT)],
         "f: router.scheduler.config.ref: cannot be carried over: ConfigMap picker"),
        ([referring(key="a"), config_map(epp=TEXT)],
         "f: router.scheduler.config.ref: ConfigMap picker has no key a"),
        # A ConfigMap that nobody names is an object like any other.
        ([referring(), config_map(epp=TEXT), config_map("else", epp=TEXT)], "f#3: kind: ConfigMap"),
    ],
)  # fmt: skip
def test_missing_config_map_is_reported(documents: list[Manifest], why: str) -> None:
    assert any(problem.startswith(why) for problem in reject(*documents)), reject(*documents)


def test_findings_about_a_configuration_name_the_config_map() -> None:
    wrong = config_map(epp="plugins: [")
    assert any(problem.startswith("f#2: data.epp: ") for problem in reject(referring(), wrong))


def test_further_picker_flags_are_copied() -> None:
    def with_main(**main: Any) -> Manifest:
        template = {"containers": [{"name": "main", **main}]}
        return llm(router={"route": {}, "scheduler": {"template": template}})

    result = router(with_main(args=["--drain-timeout", "30s"]))
    assert result["endpointPicker"]["args"] == ["--drain-timeout", "30s"]
    assert any(
        problem.startswith("f: router.scheduler.template.containers[0].args")
        for problem in reject(with_main(args=["--pool-name", "mine"]))
    )
    (lost,) = [
        finding
        for finding in warn(with_main(command=["/bin/x"]), lossy=True)
        if "command" in finding
    ]
    assert "cannot be carried over: is not supported; use /app/epp" in lost


def test_service_without_scheduler_uses_a_kubernetes_service() -> None:
    document = llm(router={"route": {}})
    assert router(document)["endpointPicker"] == {"enabled": False}
    expected = "f: info: router.scheduler: not set; a Service distributes requ"
    assert any(line.startswith(expected) for line in check(document))
    assert reject(llm(router={})) == []
    objects = rendered(*convert(document))
    assert {manifest["kind"] for manifest in objects} == {"LeaderWorkerSet", "Service", "HTTPRoute"}
    (rule, *_) = next(manifest for manifest in objects if manifest["kind"] == "HTTPRoute")["spec"][
        "rules"
    ]
    assert rule["backendRefs"] == [BEHIND]
    # The generated configuration pairs prefill and decode.
    pair = llm(router={"route": {}}, prefill={"template": pod()})
    assert "enabled" not in router(pair)["endpointPicker"]
