"""Differences between our router objects and the router document, one function for each.

The section "Router objects" of `docs/deviations.md` has one row of the same name for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

DOCUMENTS = Path(__file__).parent / "fixtures" / "documents" / "router"
PREFIX = "fusioninfer.io/"

Objects = list[dict[str, Any]]
Deviation = Callable[[Objects, Objects], None]
DEVIATIONS: dict[str, Deviation] = {}


def deviation(function: Deviation) -> Deviation:
    DEVIATIONS[function.__name__.replace("_", " ")] = function
    return function


def find(objects: Objects, kind: str) -> dict[str, Any]:
    (item,) = [manifest for manifest in objects if manifest["kind"] == kind]
    return item


def service_name(document: Objects) -> str:
    return str(find(document, "InferencePool")["metadata"]["name"].removesuffix("-pool"))


def is_disaggregated(document: Objects) -> bool:
    return service_name(document) == "disaggregated-llm-service"


def pod(document: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = find(document, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(document: Objects) -> dict[str, Any]:
    (only,) = pod(document)["containers"]
    assert isinstance(only, dict)
    return only


@deviation
def example_3_gets_the_same_objects_as_example_1(document: Objects, ours: Objects) -> None:
    if not is_disaggregated(document):
        return
    (complete,) = [
        item
        for item in yaml.safe_load_all(
            text("example-1").replace("my-service", "disaggregated-llm-service")
        )
        if item["kind"] == "Deployment"
    ]
    document[document.index(find(document, "Deployment"))] = complete
    service = find(document, "Service")
    service["spec"]["type"] = "ClusterIP"
    for port in service["spec"]["ports"]:
        port["protocol"] = "TCP"


@deviation
def prefill_and_decode_use_llmds_endpoint_picker(document: Objects, ours: Objects) -> None:
    if is_disaggregated(document):
        container(document)["image"] = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"


@deviation
def the_configuration_is_a_file(document: Objects, ours: Objects) -> None:
    if not is_disaggregated(document):
        return
    (shown,) = [item for item in document if item["kind"] == "EndpointPickerConfig"]
    profiles = [
        {"name": name, "plugins": [{"pluginRef": f"{name}-pods"},
                                   {"pluginRef": "max-score-picker"},
                                   {"pluginRef": "prefix-cache-scorer", "weight": 50}]}
        for name in ("prefill", "decode")
    ]  # fmt: skip
    assert shown["spec"]["schedulingProfiles"] == profiles, "the document's profiles have changed"
    config = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            *(
                {"type": "label-selector-filter", "name": f"{name}-pods",
                 "parameters": {"matchLabels": {f"{PREFIX}component-type": kind}}}
                for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
            ),
            {"type": "approx-prefix-cache-producer",
             "parameters": {"lruCapacityPerServer": 31250}},
            {"type": "prefix-cache-scorer"},
            {"type": "max-score-picker"},
            {"type": "always-disagg-pd-decider"},
            {"type": "disagg-profile-handler",
             "parameters": {"deciders": {"prefill": "always-disagg-pd-decider"}}},
        ],
        "schedulingProfiles": profiles,
    }  # fmt: skip
    document[document.index(shown)] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": shown["metadata"],
        "data": {"config.yaml": yaml.safe_dump(config)},
    }


@deviation
def strategies_also_score_load(document: Objects, ours: Objects) -> None:
    data = find(document, "ConfigMap")["data"]
    for key, written in data.items():
        config = yaml.safe_load(written)
        scorers = {"kv-cache-utilization-scorer": 2, "queue-scorer": 2}
        at = config["plugins"].index({"type": "max-score-picker"})
        config["plugins"][at:at] = [{"type": name} for name in scorers]
        for plugin in config["plugins"]:
            if plugin["type"] == "prefix-cache-scorer" and plugin.get("parameters"):
                long = {"autoTune": False, "blockSize": 256, "maxPrefixBlocksToMatch": 2048}
                plugin["parameters"] |= long
        for profile in config["schedulingProfiles"]:
            references = profile["plugins"]
            (prefix,) = [
                reference
                for reference in references
                if reference["pluginRef"] == "prefix-cache-scorer"
            ]
            prefix["weight"] = 3
            references += [
                {"pluginRef": name, "weight": weight} for name, weight in scorers.items()
            ]
        data[key] = yaml.safe_dump(config)


@deviation
def prefill_and_decode_pods_have_the_label_pairrevision(document: Objects, ours: Objects) -> None:
    if not is_disaggregated(document):
        return
    name = "prefill-pods-of-the-pair-revision"
    data = find(document, "ConfigMap")["data"]
    for key, config_text in data.items():
        config = yaml.safe_load(config_text)
        config["plugins"][:0] = [
            {"type": "topology-extractor", "parameters": {"hostname": f"{PREFIX}pair-revision"}},
            {"type": "topology-affinity-filter", "name": name,
             "parameters": {"minAffinity": "host"}},
        ]  # fmt: skip
        config["schedulingProfiles"][0]["plugins"].insert(1, {"pluginRef": name})
        data[key] = yaml.safe_dump(config)
    container(document)["args"].append("--allow-experimental-plugins=true")


@deviation
def the_route_references_the_pool(document: Objects, ours: Objects) -> None:
    for rule in find(document, "HTTPRoute")["spec"]["rules"]:
        for ref in rule["backendRefs"]:
            if ref["kind"] == "Service":
                del ref["port"]
                ref |= {"group": "inference.networking.k8s.io", "kind": "InferencePool"}
        if rule.get("matches") == [{"path": {"type": "PathPrefix", "value": "/"}}]:
            # The input has no rules, and this is what a rule without matches means.
            del rule["matches"]


@deviation
def the_route_has_no_request_timeout(document: Objects, ours: Objects) -> None:
    for rule in find(document, "HTTPRoute")["spec"]["rules"]:
        rule["timeouts"] = {"request": "0s"}


@deviation
def the_inferencepool_contains_only_leaders(document: Objects, ours: Objects) -> None:
    selector = find(document, "InferencePool")["spec"]["selector"]
    selector["matchLabels"]["leaderworkerset.sigs.k8s.io/worker-index"] = "0"


@deviation
def failuremode_is_failopen(document: Objects, ours: Objects) -> None:
    find(document, "InferencePool")["spec"]["endpointPickerRef"]["failureMode"] = "FailOpen"


@deviation
def the_endpoint_picker_has_a_serviceaccount(document: Objects, ours: Objects) -> None:
    name = f"{service_name(document)}-epp"
    read = ["get", "list", "watch"]
    llm_d_groups = ["llm-d.ai"] if is_disaggregated(document) else []
    groups = ["inference.networking.x-k8s.io", *llm_d_groups]
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": read},
        {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"],
         "verbs": read},
        *({"apiGroups": [group], "resources": ["inferenceobjectives", "inferencemodelrewrites"],
           "verbs": read} for group in groups),
    ]  # fmt: skip
    rbac = "rbac.authorization.k8s.io"
    document += [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
         "automountServiceAccountToken": False},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
        {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": {"name": name},
         "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
         "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]},
    ]  # fmt: skip
    pod(document)["automountServiceAccountToken"] = True


@deviation
def router_objects_have_a_namespace_and_labels(document: Objects, ours: Objects) -> None:
    role = "router" if is_disaggregated(document) else "gateway"
    for item in document:
        item["metadata"]["namespace"] = "default"
        item["metadata"]["labels"] = {
            f"{PREFIX}service": service_name(document),
            f"{PREFIX}component-type": "router",
            f"{PREFIX}role-name": role,
        }


@deviation
def the_endpoint_picker_is_selected_by_two_labels(document: Objects, ours: Objects) -> None:
    component = {f"{PREFIX}component-type": "router"}
    deployment = find(document, "Deployment")["spec"]
    deployment["selector"]["matchLabels"] |= component
    deployment["template"]["metadata"]["labels"] |= component
    find(document, "Service")["spec"]["selector"] |= component


@deviation
def all_endpoint_picker_arguments_are_explicit(document: Objects, ours: Objects) -> None:
    more = [
        "--pool-group=inference.networking.k8s.io",
        "--grpc-port=9002",
        "--grpc-health-port=9003",
        "--metrics-port=9090",
        "--secure-serving=true",
        "--metrics-endpoint-auth=true",
        "--enable-pprof=false",
        "--tracing=false",
        "--v=2",
        "--zap-encoder=json",
    ]
    if not is_disaggregated(document):
        more.append("--kv-cache-usage-percentage-metric=vllm:kv_cache_usage_perc")
    for item in (document, ours):
        container(item)["args"] = sorted(
            [*container(item)["args"], *(more if item is document else ())]
        )


@deviation
def probes_use_the_services_liveness_and_readiness(document: Objects, ours: Objects) -> None:
    for name in ("liveness", "readiness"):
        container(document)[f"{name}Probe"]["grpc"]["service"] = name


@deviation
def a_probe_checks_the_endpoint_pickers_port(document: Objects, ours: Objects) -> None:
    container(document)["startupProbe"] = {
        "tcpSocket": {"port": 9002},
        "periodSeconds": 1,
        "failureThreshold": 120,
    }


@deviation
def endpoint_picker_pods_pass_the_restricted_profile(document: Objects, ours: Objects) -> None:
    pod(document)["securityContext"] = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container(document)["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    container(document)["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    for mount in container(document)["volumeMounts"]:
        mount["readOnly"] = True


@deviation
def a_new_configuration_restarts_the_endpoint_picker(document: Objects, ours: Objects) -> None:
    key = f"{PREFIX}config-checksum"
    metadata, ours_metadata = (
        find(objects, "Deployment")["spec"]["template"]["metadata"] for objects in (document, ours)
    )
    checksum = ours_metadata["annotations"][key]
    assert re.fullmatch(r"[0-9a-f]{64}", checksum)
    metadata["annotations"] = {key: checksum}


@deviation
def a_new_endpoint_picker_starts_before_the_old_one_stops(document: Objects, ours: Objects) -> None:
    find(document, "Deployment")["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }


@deviation
def a_deleted_endpoint_picker_keeps_serving_for_a_minute(document: Objects, ours: Objects) -> None:
    pod(document)["terminationGracePeriodSeconds"] = 130
    container(document)["lifecycle"] = {"preStop": {"sleep": {"seconds": 60}}}


@deviation
def metrics_are_off(document: Objects, ours: Objects) -> None:
    ports = container(document)["ports"]
    container(document)["ports"] = [port for port in ports if port["name"] != "metrics"]
    service = find(document, "Service")["spec"]
    service["ports"] = [port for port in service["ports"] if port["name"] != "http-metrics"]


@deviation
def the_endpoint_pickers_port_has_an_appprotocol(document: Objects, ours: Objects) -> None:
    for port in find(document, "Service")["spec"]["ports"]:
        if port["name"] == "grpc-ext-proc":
            port["appProtocol"] = "http2"


@deviation
def sidecars_may_read_their_pool(document: Objects, ours: Objects) -> None:
    if is_disaggregated(document):
        name = f"{service_name(document)}-sidecar"
        rbac = [manifest for manifest in ours if manifest["metadata"]["name"] == name]
        assert [item["kind"] for item in rbac] == ["ServiceAccount", "Role", "RoleBinding"]
        document += rbac


def text(name: str) -> str:
    """Return the manifests of an example in the router document."""
    return (DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")
