"""Converts KServe's scheduler block to an endpoint picker: configuration, flags and pods."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import yaml

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._child_names import POOL, name_child
from fusioninfer_importers.kserve._nodes import (
    Node,
    copy_fields,
    copy_node,
    make_node,
    merge,
    set_fields,
)
from fusioninfer_importers.kserve.container import MAIN
from fusioninfer_importers.kserve.picker_migration import connect_tokenizer, migrate
from fusioninfer_importers.kserve.picker_sidecars import add_sidecars
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import (
    EPP_CONFIG_KIND as KIND,
    FAMILIES,
    EppFamily,
    Location,
    SourceDocument,
    SourceField,
    dump_epp_config,
    find_family,
    object_names,
)

#: KServe's namespace (POD_NAMESPACE of its controller, as its manifests install it).
NAMESPACE = "kserve"
#: Prefix of ConfigMaps that schedulers of all namespaces share.
SHARED_MAP_PREFIX = "config-scheduler-"
#: Objects of one kind by namespace and name.
Objects = Mapping[tuple[Any, Any], SourceDocument]
#: Name of KServe's preset for a scheduler, without the prefix.
SCHEDULER = "scheduler"
#: Endpoint picker image of KServe's presets.
IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
#: Our container that runs the endpoint picker.
PICKER = "epp"
_PROGRAM = "/app/epp"
_PICKER_FIELDS = ("image", "resources", "args")
_RESOURCES = {"limits": {"cpu": 6, "memory": "16Gi"}, "requests": {"cpu": 1, "memory": "2Gi"}}

_Weights = Mapping[str, int]
#: Scorers of KServe's controller and their weights (schedulerConfigText, v0.20).
_WEIGHTS: _Weights = {
    "queue-scorer": 2,
    "kv-cache-utilization-scorer": 2,
    "prefix-cache-scorer": 3,
    "no-hit-lru-scorer": 2,
}
_PREFILL_WEIGHTS: _Weights = {
    "prefix-cache-scorer": 3,
    "queue-scorer": 2,
    "kv-cache-utilization-scorer": 2,
}
_DECODE_WEIGHTS: _Weights = {"active-request-scorer": 2, "prefix-cache-scorer": 3}
#: Added to every profile if the model has LoRA adapters.
_LORA_WEIGHTS: _Weights = {"lora-affinity-scorer": 4}
_PICKER_PLUGIN = "max-score-picker"
_DECIDER = "always-disagg-pd-decider"

#: Flags that contain the configuration.
_CONFIG_FLAGS = ("config-text", "configText")
#: Ports of the picker's container in KServe's preset, which are generated here.
_PORTS = [
    {"containerPort": port, "name": name, **protocol}
    for port, name in ((9002, "grpc"), (9003, "grpc-health"), (9090, "metrics"), (5557, "zmq"))
    for protocol in ({}, {"protocol": "TCP"})
]


def list_namespaces(namespace: Any, name: str) -> tuple[Any, ...]:
    """Return the namespaces that KServe searches for a scheduler's ConfigMap, in order."""
    return (namespace, NAMESPACE) if name.startswith(SHARED_MAP_PREFIX) else (namespace,)


def _find_config_map(maps: Objects, namespace: Any, name: Any) -> SourceDocument | None:
    namespaces = list_namespaces(namespace, str(name))
    return next((maps[key, name] for key in namespaces if (key, name) in maps), None)


def build_default_config(family: EppFamily, *, is_pd: bool, has_adapters: bool) -> dict[str, Any]:
    """Return the configuration that KServe's controller writes for a scheduler without one.

    Args:
        family: The endpoint picker that reads it.
        is_pd: Whether the service has prefill and decode.
        has_adapters: Whether the model has LoRA adapters.
    """
    lora = _LORA_WEIGHTS if has_adapters else {}
    header = {"apiVersion": family.api_versions[0], "kind": KIND}
    if not is_pd:
        return {
            **header,
            "plugins": _make_plugins("single-profile-handler", *_WEIGHTS, _PICKER_PLUGIN, *lora),
            "schedulingProfiles": [_make_profile("default", {**lora, **_WEIGHTS})],
        }
    handler = {"type": "disagg-profile-handler", "parameters": {"deciders": {"prefill": _DECIDER}}}
    scorers = dict.fromkeys([*_PREFILL_WEIGHTS, *_DECODE_WEIGHTS])
    return {
        **header,
        "plugins": [
            *_make_plugins("disagg-headers-handler", "prefill-filter", "decode-filter"),
            *_make_plugins(*scorers, _PICKER_PLUGIN, _DECIDER),
            handler,
            *_make_plugins(*lora),
        ],
        "schedulingProfiles": [
            _make_profile("prefill", {**lora, **_PREFILL_WEIGHTS}, "prefill-filter"),
            _make_profile("decode", {**lora, **_DECODE_WEIGHTS}, "decode-filter"),
        ],
    }


def _make_plugins(*names: str) -> list[dict[str, Any]]:
    return [{"type": name} for name in names]


def _make_profile(name: str, weights: _Weights, *filters: str) -> dict[str, Any]:
    references: list[dict[str, Any]] = [{"pluginRef": plugin} for plugin in filters]
    references += [{"pluginRef": plugin, "weight": weight} for plugin, weight in weights.items()]
    return {"name": name, "plugins": [*references, {"pluginRef": _PICKER_PLUGIN}]}


def convert_scheduler(
    builder: ServiceBuilder, target: Location, spec: Node, maps: Objects, replaced: Container[str]
) -> None:
    """Convert `router.scheduler` to the `endpointPicker` of a router role.

    Args:
        builder: The service.
        target: Its router role.
        spec: Its spec.
        maps: The input's ConfigMaps.
        replaced: Names of KServe's presets that the service's namespace replaces.
    """
    scheduler = spec.get("router", "scheduler")
    assert scheduler is not None, "checked by the caller"
    report, picker = builder.report, (*target, "endpointPicker")
    if not scheduler.content:
        report.consume(scheduler.field)
    builder.default((*picker, "image"), IMAGE, scheduler.field)
    if SCHEDULER not in replaced:
        builder.default((*picker, "resources"), _RESOURCES, scheduler.field)
    copy_fields(builder, picker, scheduler, "replicas")
    pool = scheduler.get("pool")
    if pool is not None:
        _report_pool(builder, pool)
    scheduler, producer = add_sidecars(builder, spec, read_plugins(scheduler), replaced)
    config_flag = _convert_picker_pods(builder, picker, scheduler)
    _convert_config(builder, target, scheduler, config_flag, spec, maps)
    _migrate_config(builder, target, scheduler.field / "config", producer)


def read_plugins(scheduler: Node) -> list[dict[str, Any]]:
    """Return the plugins of a scheduler's configuration; none if it is in a ConfigMap.

    KServe, too, ignores ConfigMaps when it looks for plugins that need sidecars.
    """
    text = scheduler.get("config", "inline")
    containers = [] if text is not None else scheduler.list_at("template", "containers")
    for container in containers:
        args = container.get("args") or Node(container.field, [])
        for flag, value, _ in split_flags(args):
            text = value if flag in _CONFIG_FLAGS else text
    config = _parse_config(None if text is None else text.value)
    plugins = config.get("plugins")
    items = plugins if isinstance(plugins, list) else []
    return [plugin for plugin in items if isinstance(plugin, dict)]


def _parse_config(value: Any) -> dict[str, Any]:
    """Return a configuration, or empty if it is invalid, which other checks report."""
    try:
        config = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        return {}
    return config if isinstance(config, dict) else {}


def _convert_config(
    builder: ServiceBuilder,
    target: Location,
    scheduler: Node,
    config_flag: Node | None,
    spec: Node,
    maps: Objects,
) -> None:
    """Set the picker's configuration; `config_flag` is the configuration in its arguments."""
    report, target_config = builder.report, (*target, "endpointPickerConfig")
    image = builder.get((*target, "endpointPicker", "image"))
    family = find_family(image) if isinstance(image, str) else None
    inline, reference = scheduler.get("config", "inline"), scheduler.get("config", "ref")
    if inline is not None and reference is not None:
        report.invalid(reference.field, "conflicts with inline; remove one of them")
    if config_flag is not None and (inline is not None or reference is not None):
        report.left_out(config_flag.field, "overridden by router.scheduler.config")
    if inline is not None:
        value = inline.value
        text = value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False)
        builder.derive(target_config, text, inline.field)
    elif reference is not None:
        _use_config_map(builder, target, reference, maps)
    elif config_flag is not None:
        copy_node(builder, target_config, config_flag)
    else:
        adapters = spec.get("model", "lora", "adapters")
        default = build_default_config(
            family or FAMILIES["llm-d-0.10"],
            is_pd=spec.get("prefill") is not None,
            has_adapters=adapters is not None and bool(adapters.items),
        )
        builder.default(target_config, dump_epp_config(default), scheduler.field)


def _migrate_config(
    builder: ServiceBuilder, target: Location, field: SourceField, producer: dict[str, Any] | None
) -> None:
    """Migrate the configuration for a current picker, as KServe's controller does.

    `producer` has the parameters of `token-producer`, or None if there is no tokenizer.
    """
    target_config = (*target, "endpointPickerConfig")
    config = _parse_config(builder.get(target_config))
    image = builder.get((*target, "endpointPicker", "image"))
    family = find_family(image) if isinstance(image, str) else None
    if family is None or family.name not in ("llm-d-0.9", "llm-d-0.10"):
        if producer is not None:
            builder.report.unsupported(
                field,
                "the tokenizer needs the endpoint picker of llm-d 0.9 or 0.10; change the image",
            )
        return
    migrated = migrate(config)
    if producer is not None:
        connect_tokenizer(migrated, producer)
    if migrated != config:
        origin = builder.remove(target_config)
        builder.default(target_config, yaml.safe_dump(migrated, sort_keys=False), origin)
        builder.report.translated(
            origin, "rewritten for the current release of the endpoint picker"
        )


def _report_pool(builder: ServiceBuilder, pool: Node) -> None:
    """Report fields of a pool that differ from KServe's preset (config-llm-scheduler.yaml)."""
    service = str(builder.main.name)
    selector = {
        "app.kubernetes.io/name": service,
        "app.kubernetes.io/part-of": "llminferenceservice",
        "kserve.io/component": "workload",
    }
    reference: dict[Location, Any] = {
        ("group",): "",
        ("kind",): "Service",
        ("name",): object_names.endpoint_picker(service),
        ("failureMode",): "FailOpen",
        ("port", "number"): 9002,
        ("portNumber",): 9002,
    }
    preset: dict[Location, Any] = {("targetPorts", 0, "number"): 8000, ("targetPortNumber",): 8000}
    # LLMInferenceService v1alpha2 embeds an InferencePool v1, and v1alpha1 a v1alpha2 one.
    for field in ("endpointPickerRef", "extensionRef"):
        preset |= {(field, *path): value for path, value in reference.items()}
    selectors: tuple[Location, ...] = (("selector", "matchLabels"), ("selector",))
    for path in selectors:
        preset |= {path: {}, **{(*path, key): value for key, value in selector.items()}}
    for path, leaf in pool.leaves():
        if path[:1] == ("spec",) and preset.get(path[1:]) == leaf.content:
            builder.report.consume(leaf.field)
        else:
            builder.report.unsupported(
                leaf.field,
                "is not supported; the library generates the InferencePool from the service; "
                "remove it",
            )


def _use_config_map(
    builder: ServiceBuilder, target: Location, reference: Node, maps: Objects
) -> None:
    """Take the picker's configuration from a ConfigMap, whose key is `epp` by default."""
    name, key = reference.text("name"), reference.text("key") or "epp"
    config_map = _find_config_map(maps, builder.main.namespace, name)
    if config_map is None:
        builder.report.unsupported(
            reference.field,
            f"ConfigMap {name} of namespace {builder.main.namespace} is not in this input; add it "
            "as a document, or copy its content to config.inline",
            REFERENCE_MISSING,
        )
        return
    text = config_map.at("data", key)
    if not isinstance(text.value, str):
        builder.report.error(
            REFERENCE_MISSING, reference.field, f"ConfigMap {name} has no key {key}"
        )
        return
    leaf_fields = [leaf.field for _, leaf in reference.leaves()]
    builder.derive((*target, "endpointPickerConfig"), text.value, text, *leaf_fields)


def _convert_picker_pods(builder: ServiceBuilder, picker: Location, scheduler: Node) -> Node | None:
    """Set the picker's container and pods; return the configuration in its arguments."""
    metadata = (*picker, "template", "metadata")
    copy_fields(builder, metadata, scheduler, "labels", "annotations")
    pod = scheduler.get("template")
    if pod is None:
        return None
    entries = pod.get("containers")
    sidecars: list[Node] = []
    config: Node | None = None
    for container in entries.items if entries is not None else ():
        if container.text("name") != MAIN:
            sidecars.append(container)
            continue
        name = container.content["name"]
        builder.report.consume(name.field)
        ports = container.get("ports")
        new_fields: dict[str, Node | None] = {}
        if ports is not None and all(port.value in _PORTS for port in ports.items):
            builder.report.consume(ports.field)
            new_fields["ports"] = None
        command, args = container.get("command"), container.get("args")
        words = args.items if args is not None else []
        if command is not None and command.items and command.items[0].content == _PROGRAM:
            builder.report.consume(command.field)
            new_fields["command"] = None
            words = [*command.items[1:], *words]
        elif command is not None:
            builder.report.unsupported(
                command.field, f"is not supported; use {_PROGRAM}, and put further flags into args"
            )
            new_fields["command"] = None
        if words and (args is None or isinstance(args.content, list)):
            field = container.field if args is None else args.field
            kept, config = _drop_generated_flags(builder, Node(field, words))
            new_fields["args"] = Node(field, kept, synthetic=args is None) if kept else None
        sidecars += _convert_picker_container(
            builder, picker, set_fields(container, **new_fields), name
        )
    kept_pod = set_fields(pod, containers=Node(pod.field, sidecars) if sidecars else None)
    if kept_pod.content:
        copy_node(builder, (*picker, "template", "spec"), kept_pod)
    return config


def _drop_generated_flags(builder: ServiceBuilder, args: Node) -> tuple[list[Node], Node | None]:
    """Return the arguments without redundant ones, and the configuration among them."""
    name, namespace = builder.main.name, builder.main.namespace
    # Flags of KServe's presets, and the values with which they are dropped.
    preset_flags = {
        "pool-name": (name_child(str(name), POOL),),
        "pool-namespace": (str(namespace),),
        "pool-group": ("inference.networking.k8s.io", "inference.networking.x-k8s.io"),
        "grpc-port": ("9002",),
        "grpc-health-port": ("9003",),
        "metrics-port": ("9090",),
        "zap-encoder": ("json",),
        # Certificates of KServe's controller; engines serve plain HTTP here.
        "cert-path": ("/var/run/kserve/tls",),
        "model-server-metrics-scheme": ("http", "https"),
        # Defaults of the endpoint picker, which removed these flags.
        "kv-cache-usage-percentage-metric": ("vllm:kv_cache_usage_perc",),
        "total-queued-requests-metric": ("vllm:num_requests_waiting",),
    }
    kept: list[Node] = []
    config: Node | None = None
    for flag, value, nodes in split_flags(args):
        if flag in _CONFIG_FLAGS and value is not None:
            builder.report.consume(*(node.field for node in nodes))
            config = value
        elif value is not None and value.content in preset_flags.get(flag, ()):
            builder.report.left_out(
                nodes[0].field, f"--{flag} {value.content} is generated or not needed here; ignored"
            )
            builder.report.consume(*(node.field for node in nodes))
        else:
            kept += nodes
    return kept, config


def split_flags(args: Node) -> Iterator[tuple[str, Node | None, list[Node]]]:
    """Yield name, value and arguments of each flag (`--flag value` or `--flag=value`).

    Other arguments have an empty name and no value.
    """
    items = args.items
    while items:
        item = items.pop(0)
        text = str(item.content)
        name, equals, value = text.lstrip("-").partition("=")
        if not text.startswith("-"):
            yield "", None, [item]
        elif equals:
            yield name, Node(item.field, value, synthetic=True), [item]
        elif items and not str(items[0].content).startswith("-"):
            next_item = items.pop(0)
            yield name, next_item, [item, next_item]
        else:
            yield name, None, [item]


def _convert_picker_container(
    builder: ServiceBuilder, picker: Location, container: Node, name: Node
) -> list[Node]:
    """Set the picker's own fields; return the container with its other fields, if any."""
    resources = container.get("resources")
    if resources is not None and builder.get((*picker, "resources")) is not None:
        merged = merge(make_node(resources.field, _RESOURCES), resources)
        container = set_fields(container, resources=merged)
    # KServe's presets start the picker in `command`, so its args are further flags.
    copy_fields(builder, picker, container, *_PICKER_FIELDS)
    removed_fields = dict.fromkeys(_PICKER_FIELDS)
    rest = set_fields(container, name=Node(name.field, PICKER), **removed_fields)
    return [rest] if len(rest.content) > 1 else []
