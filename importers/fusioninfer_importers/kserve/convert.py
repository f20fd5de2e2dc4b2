"""The entry point of the importer of KServe's documents."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fusioninfer_importers.conversion import (
    ConversionReport,
    ServiceBuilder,
    filter_kind,
    walk_leaves,
)
from fusioninfer_importers.gang import GANG_MODE, NO_GANG, VOLCANO, convert_queue
from fusioninfer_importers.kserve._filling import fill_templates
from fusioninfer_importers.kserve._nodes import Node, copy_node, merge, read_node, set_fields
from fusioninfer_importers.kserve.container import MAIN
from fusioninfer_importers.kserve.credentials import (
    ACCOUNT,
    SECRET,
    convert_credentials,
    find_referenced_objects,
)
from fusioninfer_importers.kserve.models import LLMInferenceService, LLMInferenceServiceConfig
from fusioninfer_importers.kserve.presets import (
    PREFIX,
    ReplacedPresets,
    drop_scripts,
    find_presets,
    has_script,
)
from fusioninfer_importers.kserve.router import (
    Related,
    convert_router,
    group_services,
    map_kserve_backends,
)
from fusioninfer_importers.kserve.scaling import (
    SETTINGS,
    WVA_SETTINGS,
    is_settings,
    scale_roles_to_zero,
)
from fusioninfer_importers.kserve.scheduler import NAMESPACE, PICKER, Objects, list_namespaces
from fusioninfer_importers.kserve.served_model import convert_initializer, convert_model
from fusioninfer_importers.kserve.workload import convert_devices, convert_workload
from fusioninfer_importers.model import validate_kind
from fusioninfer_importers.objects import check_name, copy_metadata, report_other_metadata
from fusioninfer_importers.rules import DOCUMENT_UNUSED, REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Conversion, Location, SourceDocument

_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES"
_TEMPLATES = ("template", "leaderTemplate", "workerTemplate")
#: Values of KServe's config-llm-tracing.
_COLLECTOR, _SAMPLING = "http://otel-collector:4317", 0.05
SERVICE, CONFIG = "LLMInferenceService", "LLMInferenceServiceConfig"
CONFIG_MAP = "ConfigMap"
#: Fields that identify a document.
_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


def find_referenced(
    documents: Sequence[SourceDocument], others: Sequence[SourceDocument]
) -> list[SourceDocument]:
    """Return the ConfigMaps, ServiceAccounts and Secrets that the conversion reads."""
    config_ref = ("spec", "router", "scheduler", "config", "ref", "name")
    values = [document.at(*config_ref).value for document in documents]
    names = {name for name in values if isinstance(name, str)}
    services = filter_kind(documents, SERVICE)
    # A config may be in another namespace than the services that are based on it.
    config_maps = {
        ("v1", CONFIG_MAP, namespace, name)
        for name in names
        for service in services
        for namespace in list_namespaces(service.namespace, name)
    }
    settings = {("v1", CONFIG_MAP, NAMESPACE, SETTINGS)} if services else set()
    keys = config_maps.union(settings, find_referenced_objects(documents, services))
    return [
        other
        for other in others
        if (other.raw["apiVersion"], other.kind, other.namespace, other.name) in keys
    ]


def convert(documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
    """Convert KServe's documents: one service for each LLMInferenceService."""
    report = ConversionReport(documents, allow_lossy=allow_lossy)
    configs = {
        (document.namespace, document.name): document
        for document, _ in validate_kind(report, documents, CONFIG, LLMInferenceServiceConfig)
    }
    maps, accounts, secrets = (
        {(document.namespace, document.name): document for document in filter_kind(documents, kind)}
        for kind in (CONFIG_MAP, ACCOUNT, SECRET)
    )
    report.consume(*(document.at() for document in (*accounts.values(), *secrets.values())))
    used_configs: set[SourceDocument] = set()
    specs: list[tuple[SourceDocument, ReplacedPresets, list[SourceDocument], Node]] = []
    for document, _ in validate_kind(report, documents, SERVICE, LLMInferenceService):
        base_refs = _find_base_refs(report, document, configs)
        presets = find_presets(document, _merge_specs(report, document, base_refs), configs)
        # KServe merges presets first, then the baseRefs, then the service.
        bases = [config for config in presets.values() if config not in base_refs] + base_refs
        used_configs.update(bases)
        spec = _merge_and_report_overrides(report, document, bases)
        replaced_presets = {name: has_script(spec, name) for name in presets}
        specs.append((document, replaced_presets, bases, drop_scripts(report, spec)))
    backends: dict[tuple[Any, str, str], Mapping[str, Any]] = {}
    for document, _, _, spec in specs:
        if spec.get("router") is not None:
            backends |= map_kserve_backends(document.namespace, document.name, spec)
    groups = group_services(
        (document.namespace, document.name, spec) for document, _, _, spec in specs
    )
    related = Related(maps, accounts, secrets, backends, groups)
    for document, replaced, bases, spec in specs:
        builder = report.add_service(document)
        for base in bases:
            builder.add_source(base)
        convert_service(builder, spec, related, replaced)
    _report_config_maps(report, maps)
    _report_configs(report, configs, used_configs)
    return report.finish()


def _report_config_maps(report: ConversionReport, maps: Objects) -> None:
    for document in maps.values():
        report.consume(*(document.at(*path) for path in _IDENTITY))
        unconsumed = [
            leaf
            for leaf in walk_leaves(document.at(), document.raw)
            if not report.is_consumed(leaf)
        ]
        if is_settings(document) and unconsumed:
            report.consume(*unconsumed)
            report.warning(
                DOCUMENT_UNUSED,
                document.at("data"),
                f"only {WVA_SETTINGS} is read, for scaling.wva; the defaults of KServe's manifests "
                "apply otherwise",
            )
            continue
        for leaf in unconsumed:
            report.left_out(leaf, "is not referenced by the scheduler's config.ref; ignored")


def _report_configs(
    report: ConversionReport, configs: Objects, used_configs: Collection[SourceDocument]
) -> None:
    for document in configs.values():
        report.consume(*(document.at(*path) for path in _IDENTITY))
        check_name(report, document)
        if document in used_configs:
            report_other_metadata(report, document)
            for field in ("labels", "annotations"):
                if document.metadata.get(field):
                    report.left_out(
                        document.at("metadata", field),
                        "metadata of a config is not inherited; ignored",
                    )
        else:
            message = "no LLMInferenceService of this input uses it; ignored"
            if document.namespace == NAMESPACE and str(document.name).startswith(PREFIX):
                message = (
                    "KServe applies this config without a reference, the library does not; to "
                    "apply it, add it to the baseRefs of the services"
                )
            report.warning(DOCUMENT_UNUSED, document.at(), message)


def _find_base_refs(
    report: ConversionReport, document: SourceDocument, configs: Objects
) -> list[SourceDocument]:
    """Return the configs in a service's baseRefs, in merge order."""
    bases = []
    for index, reference in enumerate(document.raw["spec"].get("baseRefs") or ()):
        field = document.at("spec", "baseRefs", index)
        name = reference["name"]
        config = _find_config(configs, document.namespace, name)
        if config is not None:
            bases.append(config)
            report.consume(field)
        elif str(name).startswith(PREFIX):
            report.left_out(field, "KServe's own config; the library generates the same settings")
        else:
            report.unsupported(
                field,
                f"this input has no LLMInferenceServiceConfig {name} in namespace "
                f"{document.namespace} or {NAMESPACE}; add it as a document",
                REFERENCE_MISSING,
            )
        if config is not None and config.raw["spec"].get("baseRefs"):
            report.unsupported(
                config.at("spec", "baseRefs"),
                "nested baseRefs are not supported; list both configs in the service's baseRefs",
            )
    return bases


def _read_spec(report: ConversionReport, document: SourceDocument) -> Node:
    """Return the spec of a document, without an empty `uri`, which a config sets."""
    spec = read_node(document.at("spec"))
    model, uri = spec.get("model"), spec.get("model", "uri")
    if model is None or uri is None or uri.content:
        return spec
    report.consume(uri.field)
    model = set_fields(model, uri=None)
    return set_fields(spec, model=model if model.content else None)


def _merge_specs(
    report: ConversionReport, document: SourceDocument, bases: Sequence[SourceDocument]
) -> Node:
    """Return the spec of a service merged over its configs."""
    specs = [_read_spec(report, source) for source in (*bases, document)]
    return functools.reduce(merge, specs)


def _merge_and_report_overrides(
    report: ConversionReport, document: SourceDocument, bases: Sequence[SourceDocument]
) -> Node:
    """Return the spec of a service merged over its configs, and report overridden values."""
    service, spec = _read_spec(report, document), _merge_specs(report, document, bases)
    kept = {leaf.field for _, leaf in spec.leaves()}
    for _, leaf in service.leaves():
        if leaf.field in kept:
            continue
        if leaf.content in ({}, []):  # `scheduler: {}` enables what a config configures
            report.consume(leaf.field)
        else:
            report.left_out(
                leaf.field, "overridden by a later item of the list, as KServe merges them"
            )
    for config in bases:
        for field in walk_leaves(config.at(), config.raw):
            if field.path[:1] == ("spec",) and field not in kept and not report.is_consumed(field):
                report.left_out(field, f"overridden by {document.name}")
    return spec


def _find_config(configs: Objects, namespace: Any, name: Any) -> SourceDocument | None:
    """Return an LLMInferenceServiceConfig from the service's namespace, else from KServe's."""
    return configs.get((namespace, name)) or configs.get((NAMESPACE, name))


def convert_service(
    builder: ServiceBuilder, spec: Node, related: Related, replaced: ReplacedPresets
) -> None:
    """Convert an LLMInferenceService, whose spec is merged with its configs."""
    copy_metadata(builder, builder.main)
    builder.set_origin(("spec", "roles"), spec.field)
    spec = fill_templates(builder, spec)
    model_arguments = convert_model(builder, spec)
    spec = convert_initializer(builder, spec)
    convert_credentials(builder, spec, related.accounts, related.secrets)
    prefill = spec.get("prefill")
    if prefill is not None:
        builder.report.consume(prefill.field)  # `prefill: {}` has KServe's preset
        convert_workload(builder, prefill, "prefill", "prefiller", model_arguments, replaced)
        convert_workload(builder, spec, "decode", "decoder", model_arguments, replaced)
    else:
        convert_workload(builder, spec, "main", "worker", model_arguments, replaced)
    if not convert_queue(builder):
        _convert_gang(builder, spec)
    convert_router(builder, spec, related, replaced)
    _convert_tracing(builder, spec)
    scale_roles_to_zero(builder)
    convert_devices(builder)


def _convert_gang(builder: ServiceBuilder, spec: Node) -> None:
    """Disable our default, gang scheduling, unless the pods use Volcano."""
    workloads = [node for node in (spec, spec.get("prefill")) if node is not None]
    pods = [pod for node in workloads for pod in map(node.get, ("template", "worker")) if pod]
    needs_gang = len(workloads) > 1 or spec.get("worker") is not None
    if needs_gang and all(pod.text("schedulerName") != VOLCANO for pod in pods):
        builder.default(GANG_MODE, "Off", spec.field)
        builder.report.chosen(builder.main.at("spec", "template", "schedulerName"), NO_GANG)


def _add_trace_attributes(builder: ServiceBuilder, endpoint: Node) -> None:
    """Add the attributes of spans that KServe's controller sets (tracing.go)."""
    namespace, name = builder.main.namespace, builder.main.name
    if not isinstance(namespace, str):
        return  # an Output, which cannot be part of a string
    fields = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}
    variables: list[dict[str, Any]] = [
        {"name": f"{_ATTRIBUTES}_{key}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for key, path in fields.items()
    ]
    value = (
        f"k8s.namespace.name={namespace},k8s.node.name=$({_ATTRIBUTES}_NODE_NAME),"
        f"k8s.pod.name=$({_ATTRIBUTES}_POD_NAME),llmisvc.name={name}"
    )
    variables.append({"name": _ATTRIBUTES, "value": value})
    for index, role in enumerate(builder.roles):
        target: Location = ("spec", "roles", index)
        pods = {(*target, template): MAIN for template in _TEMPLATES if template in role}
        if "image" in role.get("endpointPicker", ()):
            picker = (*target, "endpointPicker", "template")
            pods[picker] = PICKER
            containers = builder.get((*picker, "spec", "containers")) or []
            if PICKER not in map(_get_name, containers):
                name_location = (*picker, "spec", "containers", len(containers), "name")
                builder.default(name_location, PICKER, endpoint.field)
        for pod, container_name in pods.items():
            entries: Location = (*pod, "spec", "containers")
            for position, container in enumerate(builder.get(entries) or ()):
                is_traced = _get_name(container) == container_name
                env = _list_variable_names(container) if is_traced else None
                if env is not None and _ATTRIBUTES not in env:
                    for offset, variable in enumerate(variables, start=len(env)):
                        field = (*entries, position, "env", offset)
                        builder.default(field, variable, endpoint.field)


def _get_name(container: Any) -> Any:
    return container.get("name") if isinstance(container, dict) else None


def _list_variable_names(container: dict[str, Any]) -> list[Any] | None:
    """Return the names of a container's variables, or None if its env is malformed."""
    env = container.get("env") or []
    if not isinstance(env, list) or not all(isinstance(variable, dict) for variable in env):
        return None
    return [variable.get("name") for variable in env]


def _convert_tracing(builder: ServiceBuilder, spec: Node) -> None:
    tracing, report = spec.get("tracing"), builder.report
    if tracing is None:
        return
    endpoint = tracing.get("exporterEndpoint")
    if endpoint is None:
        endpoint = Node(tracing.field, _COLLECTOR, synthetic=True)
        report.consume(tracing.field)
        report.chosen(
            tracing.field / "exporterEndpoint", f"not set; uses {_COLLECTOR}, as KServe's preset"
        )
    copy_node(builder, ("spec", "tracing", "endpoint"), endpoint)
    _add_trace_attributes(builder, endpoint)
    exporter, sampler = tracing.get("exporter"), tracing.get("sampler")
    if exporter is not None and exporter.content != "otlp":
        report.unsupported(exporter.field, "is not supported; use otlp")
    elif exporter is not None:
        report.consume(exporter.field)
    ratio = tracing.get("samplerArg")
    is_ratio = sampler is None or "traceidratio" in str(sampler.content)
    if sampler is not None and not is_ratio:
        report.unsupported(
            sampler.field,
            "is not supported; use parentbased_traceidratio and set tracing.samplerArg",
        )
    elif sampler is not None:
        report.translated(sampler.field, "the client's sampling decision takes precedence")
    if ratio is None:
        builder.default(("spec", "tracing", "sampling"), _SAMPLING, tracing.field)
        return
    try:
        builder.derive(("spec", "tracing", "sampling"), float(str(ratio.content)), ratio.field)
    except ValueError:
        report.invalid(ratio.field, f"must be a number from 0 to 1, got {ratio.content}")
