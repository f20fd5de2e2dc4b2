"""An LLMInferenceService as a service of ours: everything but its pods and its router."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.kserve.devices import carry_devices
from fusioninfer_pulumi.importers.kserve.initializer import without_initializers
from fusioninfer_pulumi.importers.kserve.lookup import Around
from fusioninfer_pulumi.importers.kserve.merging import Node, carry
from fusioninfer_pulumi.importers.kserve.router import carry_router
from fusioninfer_pulumi.importers.kserve.stopping import carry_stop
from fusioninfer_pulumi.importers.kserve.templates import filled
from fusioninfer_pulumi.importers.kserve.workload import carry_workload
from fusioninfer_pulumi.importers.metadata import carry_metadata


def carry_service(carrier: Carrier, spec: Node, around: Around) -> None:
    """Carries an LLMInferenceService over.

    Args:
        carrier: The service that stands for it.
        spec: Its spec, merged with the configs that it is based on.
        around: What else the input holds.
    """
    carry_metadata(carrier, carrier.main)
    carrier.origin(("spec", "roles"), spec.at)
    spec = filled(spec, _fields(carrier, spec))
    _go_templates(carrier, spec)
    _model(carrier, spec)
    spec = without_initializers(carrier, spec)
    prefill = spec.get("prefill")
    if prefill is not None:
        carry_workload(carrier, prefill, "prefill", "prefiller")
        carry_workload(carrier, spec, "decode", "decoder")
    else:
        carry_workload(carrier, spec, "main", "worker")
    carry_router(carrier, spec, around)
    _tracing(carrier, spec)
    carry_stop(carrier)
    carry_devices(carrier)


def _tracing(carrier: Carrier, spec: Node) -> None:
    tracing, book = spec.get("tracing"), carrier.book
    if tracing is None:
        return
    endpoint = tracing.get("exporterEndpoint")
    if endpoint is None:
        book.lost(tracing.at, "tracing needs the endpoint of a collector")
        return
    carry(carrier, ("spec", "tracing", "endpoint"), endpoint)
    exporter, sampler = tracing.get("exporter"), tracing.get("sampler")
    if exporter is not None and exporter.content != "otlp":
        book.lost(exporter.at, "traces are sent by OTLP")
    elif exporter is not None:
        book.read(exporter.at)
    share = tracing.get("samplerArg")
    ratio = sampler is None or "traceidratio" in str(sampler.content)
    if sampler is not None and not ratio:
        book.lost(
            sampler.at, "tracing.sampling is a share of the requests, parentbased_traceidratio"
        )
    elif sampler is not None:
        book.note(sampler.at, "requests whose client has decided are traced as it says")
    if share is None:
        return
    try:
        carrier.derive(("spec", "tracing", "sampling"), float(str(share.content)), share.at)
    except ValueError:
        book.refuse(share.at, f"must be a share of the requests from 0 to 1, got {share.content}")


def _fields(carrier: Carrier, spec: Node) -> dict[str, str]:
    document, model = carrier.main, spec.get("model")
    named = model.text("name") if model is not None else None
    return {
        ".ObjectMeta.Name": str(document.name),
        ".ObjectMeta.Namespace": str(document.namespace),
        ".Spec.Model.Name": named or str(document.name),
    }


def _model(carrier: Carrier, spec: Node) -> None:
    model = spec.get("model")
    book = carrier.book
    if model is None or model.get("uri") is None:
        book.refuse(
            spec.at / "model", "is required, here or in a config: its uri says what is served"
        )
        return
    for key in ("uri", "name"):
        field = model.get(key)
        if field is not None:
            carry(carrier, ("spec", "model", key), field)
    if model.get("name") is None:
        carrier.imply(("spec", "model", "name"), carrier.main.name, model.at)
    secret = model.get("confidential")
    if secret is not None:
        book.lost(secret.at, "models are not decrypted here; use an image that does")
    _fetching(carrier, spec, model)
    _lora(carrier, model)


def _fetching(carrier: Carrier, spec: Node, model: Node) -> None:
    """Who downloads the model: KServe's init container, unless the service does without it."""
    uri, target = model.value["uri"], ("spec", "model", "fetch")
    enabled = spec.get("storageInitializer", "enabled")
    without = enabled is not None and enabled.content is False
    if enabled is not None and uri.startswith("hf://"):
        carrier.derive(target, "Engine" if without else "InitContainer", enabled.at)
    elif uri.startswith("hf://"):
        carrier.imply(target, "InitContainer", model.at)
    elif without and enabled is not None and uri.startswith("s3://"):
        carrier.book.lost(enabled.at, "an init container downloads from s3://")
    elif enabled is not None:
        carrier.book.read(enabled.at)  # volumes and images are mounted either way


def _lora(carrier: Carrier, model: Node) -> None:
    lora = model.get("lora")
    if lora is None:
        return
    adapters = lora.get("adapters")
    for index, adapter in enumerate(adapters.content if adapters is not None else ()):
        target = ("spec", "model", "lora", "adapters", index)
        for key in ("name", "uri"):
            field = adapter.get(key)
            if field is not None:
                carry(carrier, (*target, key), field)
        if adapter.get("name") is None:
            carrier.book.refuse(adapter.at, "adapter name is required")
        for key in ("lora", "confidential"):
            field = adapter.get(key)
            if field is not None:
                carrier.book.lost(field.at, "an adapter has a name and a uri")
    for key in ("maxRank", "maxAdapters", "maxCpuAdapters"):
        field = lora.get(key)
        if field is not None:
            carry(carrier, ("spec", "model", "lora", key), field)


def _go_templates(carrier: Carrier, spec: Node) -> None:
    for _, leaf in spec.leaves():
        if isinstance(leaf.content, str) and "{{" in leaf.content:
            carrier.book.lost(
                leaf.at, "holds a Go template, which KServe fills in; write what it becomes"
            )
