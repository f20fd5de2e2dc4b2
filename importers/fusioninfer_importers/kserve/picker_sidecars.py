"""Adds the containers that plugins of an endpoint picker need: tokenizer, latency predictors.

Here the tokenizer is a sidecar of the endpoint picker, as in llm-d's guides; KServe runs it as a
Deployment with a Service.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._nodes import Node, make_node, merge, set_fields
from fusioninfer_importers.kserve.container import MAIN
from fusioninfer_importers.kserve.picker_migration import PRECISE_SCORER, TOKEN_PRODUCER
from fusioninfer_pulumi.plugins.importers import SourceField

_PRESETS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_LATENCY_PRODUCER = "predicted-latency-producer"
_PORT = 8002
#: Names of KServe's presets for tokenizer and latency predictor, without the prefix.
TOKENIZER, LATENCY_PREDICTOR = "tokenizer", "scheduler-latency-predictor"
_WEIGHTS = "/mnt/models/base"
#: Pod fields of KServe's tokenizer preset (config-llm-tokenizer) that a sidecar does not need.
_PRESET_POD = {
    "automountServiceAccountToken": False,
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
}
_PRESET_PORTS = [{"name": "render-http", "containerPort": 8000, "protocol": "TCP"}]
_PRESET_SCRIPT = f"exec vllm launch render {_WEIGHTS} --port=8000"


def add_sidecars(
    builder: ServiceBuilder,
    spec: Node,
    plugins: Sequence[Mapping[str, Any]],
    replaced: Container[str],
) -> tuple[Node, dict[str, Any] | None]:
    """Add the containers that plugins need to the scheduler's template.

    Args:
        builder: The service.
        spec: Its spec.
        plugins: The plugins of the endpoint picker.
        replaced: Names of KServe's presets that the service's namespace replaces.

    Returns:
        The scheduler, and the parameters of `token-producer`, or None if there is no tokenizer.
    """
    scheduler = spec.get("router", "scheduler")
    assert scheduler is not None, "checked by the caller"
    pod, parameters = scheduler.get("template"), None
    if uses_latency_predictor(plugins) and LATENCY_PREDICTOR not in replaced:
        pod = _merge_pods(pod, make_node(scheduler.field / "config", _PRESETS["latencyPredictor"]))
    tokenizer = scheduler.get(TOKENIZER)
    if uses_tokenizer(scheduler, plugins):
        field = scheduler.field / "config" if tokenizer is None else tokenizer.field
        is_replaced = TOKENIZER in replaced
        parameters, preset = _build_tokenizer(builder, spec, field, is_replaced=is_replaced)
        if parameters is not None:
            user_pod = _read_tokenizer_pod(builder, tokenizer)
            pod = _merge_pods(pod, merge(make_node(field, preset), user_pod))
    return set_fields(scheduler, template=pod), parameters


def uses_latency_predictor(plugins: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a plugin needs the latency predictor."""
    return any(plugin.get("type") == _LATENCY_PRODUCER for plugin in plugins)


def uses_tokenizer(scheduler: Node, plugins: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the scheduler or a plugin needs the tokenizer."""
    return scheduler.get(TOKENIZER) is not None or any(
        plugin.get("type") == PRECISE_SCORER or _needs_tokenizer_address(plugin)
        for plugin in plugins
    )


def _needs_tokenizer_address(plugin: Mapping[str, Any]) -> bool:
    parameters = plugin.get("parameters")
    # The key may be in a nested mapping, such as `vllm`.
    return plugin.get("type") == TOKEN_PRODUCER and "'url':" not in str(parameters)


def _merge_pods(pod: Node | None, preset: Node) -> Node:
    return preset if pod is None else merge(preset, pod)


def _build_tokenizer(
    builder: ServiceBuilder, spec: Node, field: SourceField, *, is_replaced: bool
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the parameters of `token-producer` (None without hf:// or pvc://) and the pod."""
    pod = copy.deepcopy(_PRESETS[TOKENIZER])
    if is_replaced:
        ports = pod["containers"][0]["ports"]
        container = {"name": TOKENIZER, "ports": ports, "env": [], "volumeMounts": []}
        pod = {"containers": [container], "volumes": []}
    (container,) = pod["containers"]
    model = spec.get("model")
    uri = (model and model.text("uri")) or ""
    scheme, _, path = uri.partition("://")
    if scheme == "hf":
        name, _, revision = path.partition(":")
        options = [f"--revision={revision}"] if revision else []
        secret = builder.get(("spec", "model", "tokenSecret", "name"))
        if secret is not None:
            reference = {"secretKeyRef": {"name": secret, "key": "HF_TOKEN"}}
            container["env"].append({"name": "HF_TOKEN", "valueFrom": reference})
    elif scheme == "pvc":
        claim, _, directory = path.partition("/")
        name, options = _WEIGHTS, []
        mount = {"name": "tokenizer-model", "mountPath": _WEIGHTS, "readOnly": True}
        container["volumeMounts"].append({**mount, **({"subPath": directory} if directory else {})})
        volume = {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        pod["volumes"].append({"name": "tokenizer-model", **volume})
    else:
        builder.report.unsupported(
            field,
            f'the tokenizer reads models of hf:// and pvc://, got "{uri}"; run `vllm launch '
            f"render` yourself and set modelName and vllm.url of {TOKEN_PRODUCER} in config.inline",
        )
        return None, pod
    container["command"] = ["vllm", "launch", "render", name, f"--port={_PORT}", *options]
    builder.report.chosen(field, "the tokenizer runs in the endpoint picker's pods")
    return {"modelName": name, "vllm": {"url": f"http://localhost:{_PORT}"}}, pod


def _read_tokenizer_pod(builder: ServiceBuilder, tokenizer: Node | None) -> Node:
    """Return the containers and volumes of the tokenizer's template; other fields are reported."""
    if tokenizer is None:
        return Node(builder.main.at(), {})
    if not tokenizer.content:
        builder.report.consume(tokenizer.field)
    pod = tokenizer.get("template") or Node(tokenizer.field, {})
    for field, value in _PRESET_POD.items():
        _consume_if_equal(builder, pod.get(field), value)
    items = [_rename_main(builder, item) for item in pod.list_at("containers")]
    fields = {"volumes": pod.get("volumes"), "containers": Node(pod.field, items)}
    return set_fields(Node(pod.field, {}), **fields)


def _rename_main(builder: ServiceBuilder, container: Node) -> Node:
    name = container.get("name")
    if name is None or name.content != MAIN:
        return container
    builder.report.consume(name.field)
    _consume_if_equal(builder, container.get("args"), [])
    _consume_if_equal(builder, container.get("ports"), _PRESET_PORTS)
    command = container.get("command")
    script = str(command.items[-1].content) if command is not None and command.items else ""
    if command is not None and script.replace("\\\n", "").split() == _PRESET_SCRIPT.split():
        builder.report.consume(command.field, *(word.field for word in command.items))
    return set_fields(
        container, name=Node(name.field, TOKENIZER), command=None, args=None, ports=None
    )


def _consume_if_equal(builder: ServiceBuilder, field: Node | None, value: Any) -> None:
    if field is not None and field.value == value:
        builder.report.consume(field.field, *(leaf.field for _, leaf in field.leaves()))
