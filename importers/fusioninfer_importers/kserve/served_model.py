"""Converts the model of an LLMInferenceService, and the init container that downloads it.

KServe's controller adds the init container `storage-initializer`; a user may set fields of it in
the pod templates. These become settings of our download container.
"""

from __future__ import annotations

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._nodes import (
    Node,
    copy_fields,
    copy_node,
    make_node,
    merge,
    set_fields,
)
from fusioninfer_importers.kserve.container import SERVED_NAME
from fusioninfer_pulumi.plugins.importers import Location

INITIALIZER = "storage-initializer"
#: Where the command of KServe's presets expects the model.
WEIGHTS = "/mnt/models"
_FETCHER: Location = ("spec", "model", "fetcher")
#: Fields that our container has too.
_SUPPORTED_FIELDS = ("image", "env", "resources", "securityContext")
#: Default resources of the container (KServe's inferenceservice-config).
_REQUESTS = {"cpu": "100m", "memory": "100Mi"}
#: Fields that KServe's controller overwrites (its event StorageInitializerOverride).
_CONTROLLED_FIELDS = ("args", "command")


def qualify_name(namespace: str, model: str) -> str:
    """Return the name by which a shared gateway knows a model (fullyQualifiedModelName)."""
    return f"publishers/{namespace}/models/{model}"


def list_adapters(spec: Node) -> list[str]:
    """Return the names of the LoRA adapters of a service."""
    names = [adapter.text("name") for adapter in spec.list_at("model", "lora", "adapters")]
    return [name for name in names if name is not None]


def convert_model(builder: ServiceBuilder, spec: Node) -> tuple[str, ...]:
    """Convert the model, its download and its LoRA adapters.

    Returns:
        Arguments that name the model, for the command of KServe's presets.
    """
    model, report = spec.get("model"), builder.report
    if model is None or model.get("uri") is None:
        report.invalid(spec.field / "model", "model.uri is required, here or in a config")
        return ()
    name, namespace = model.text("name") or builder.main.name, builder.main.namespace
    names = [str(name)]
    if isinstance(namespace, str):  # else an Output
        names.append(qualify_name(namespace, str(name)))
    if _has_mounted_model(spec):
        _convert_mounted_model(builder, spec, model)
        return (WEIGHTS, SERVED_NAME, *names)
    copy_fields(builder, ("spec", "model"), model, "uri", "name")
    uri = str(model.value["uri"])
    if uri.startswith("oci+native://"):  # KServe mounts an image volume, as oci:// does here
        oci_uri = uri.replace("oci+native://", "oci://", 1)
        builder.derive(("spec", "model", "uri"), oci_uri, model.field / "uri")
    _report_criticality(builder, model)
    if model.get("name") is None:
        builder.default(("spec", "model", "name"), builder.main.name, model.field)
    _report_confidential(builder, model)
    _convert_download(builder, spec, model)
    _convert_lora(builder, model)
    return (SERVED_NAME, *names)


def _has_mounted_model(spec: Node) -> bool:
    """Return whether the user mounts the model, so that nothing is downloaded."""
    enabled, pod = spec.get("storageInitializer", "enabled"), spec.get("template")
    if enabled is None or enabled.content is not False or pod is None:
        return False
    return any(
        (mount.text("mountPath") or "").rstrip("/") == WEIGHTS
        for container in pod.list_at("containers")
        for mount in container.list_at("volumeMounts")
    )


def _convert_mounted_model(builder: ServiceBuilder, spec: Node, model: Node) -> None:
    """Convert a model that the user mounts where the presets' command looks for it."""
    report = builder.report
    report.translated(model.field / "uri", f"not downloaded; the pods mount the model at {WEIGHTS}")
    if (enabled := spec.get("storageInitializer", "enabled")) is not None:
        report.consume(enabled.field)
    _report_criticality(builder, model)
    report.consume(model.field / "name")
    _report_confidential(builder, model)
    lora = model.get("lora")
    if lora is not None:
        report.unsupported(
            lora.field, "is not supported for a model that the pods mount themselves"
        )


def _report_criticality(builder: ServiceBuilder, model: Node) -> None:
    """Report `criticality` of a model or adapter, a field that only v1alpha1 has."""
    field = model.get("criticality")
    if field is None:
        return
    if str(field.field.document.raw.get("apiVersion")).endswith("/v1alpha1"):
        builder.report.left_out(field.field, "has no effect in KServe's scheduler; ignored")
    else:
        builder.report.invalid(field.field, "is a field of v1alpha1 only; remove it")


def _report_confidential(builder: ServiceBuilder, model: Node) -> None:
    """Report an encrypted model, which KServe's storage-initializer decrypts."""
    field, enabled = model.get("confidential"), model.get("confidential", "enabled")
    if field is None:
        return
    if enabled is not None and enabled.content is False:
        builder.report.left_out(field.field, "has no effect without enabled: true; ignored")
        return
    builder.report.unsupported(
        field.field,
        "the model is encrypted, and KServe's storage-initializer decrypts it in a confidential "
        "container, which is not supported; set storageInitializer.enabled: false and decrypt it "
        "in an init container of the pod template",
    )


def _convert_download(builder: ServiceBuilder, spec: Node, model: Node) -> None:
    """Set how the model is downloaded: by an init container, unless the service disables it."""
    uri, target = model.value["uri"], ("spec", "model", "fetch")
    enabled = spec.get("storageInitializer", "enabled")
    is_disabled = enabled is not None and enabled.content is False
    if enabled is not None and uri.startswith("hf://"):
        builder.derive(target, "Engine" if is_disabled else "InitContainer", enabled.field)
    elif uri.startswith("hf://"):
        builder.default(target, "InitContainer", model.field)
    elif is_disabled and enabled is not None and uri.startswith("s3://"):
        builder.report.unsupported(
            enabled.field, "s3:// needs the storage-initializer; remove enabled: false"
        )
    elif enabled is not None:
        # Volumes and images are mounted, and s3:// is downloaded.
        builder.report.consume(enabled.field)


def _convert_lora(builder: ServiceBuilder, model: Node) -> None:
    lora = model.get("lora")
    if lora is None:
        return
    adapters = lora.list_at("adapters")
    for index, adapter in enumerate(adapters):
        target = ("spec", "model", "lora", "adapters", index)
        copy_fields(builder, target, adapter, "name", "uri")
        _report_criticality(builder, adapter)
        if adapter.get("name") is None:
            builder.report.invalid(adapter.field, "adapter name is required")
        _report_confidential(builder, adapter)
        nested = adapter.get("lora")
        if nested is not None:
            builder.report.unsupported(
                nested.field, "is not supported; an adapter has name and uri"
            )
    if isinstance(builder.main.namespace, str):
        # Each adapter is also served under its qualified name (attachLoRAAdapters).
        for index, adapter in enumerate(adapters, start=len(adapters)):
            target = ("spec", "model", "lora", "adapters", index)
            qualified = qualify_name(builder.main.namespace, str(adapter.text("name")))
            builder.default((*target, "name"), qualified, adapter.field)
            builder.default((*target, "uri"), adapter.value["uri"], adapter.field)
    limits = ("maxRank", "maxAdapters", "maxCpuAdapters")
    copy_fields(builder, ("spec", "model", "lora"), lora, *limits)


def _needs_download(uri: Node | None) -> bool:
    return uri is not None and str(uri.content).startswith(("hf://", "s3://"))


def convert_initializer(builder: ServiceBuilder, spec: Node) -> Node:
    """Return the spec without the init container, whose fields become `model.fetcher`.

    If there is nothing to download, these fields are ignored, because KServe's controller then
    removes the container. With `storageInitializer.enabled: false`, a container of that name is the
    user's, and stays.
    """
    enabled = spec.get("storageInitializer", "enabled")
    if enabled is not None and enabled.content is False:
        return spec
    adapters = spec.list_at("model", "lora", "adapters")
    uris = [spec.get("model", "uri"), *(adapter.get("uri") for adapter in adapters)]
    is_fetched = any(_needs_download(uri) for uri in uris)
    prefill = spec.get("prefill")
    spec = _remove_initializer(builder, spec, is_fetched=is_fetched)
    if prefill is None:
        return spec
    return set_fields(spec, prefill=_remove_initializer(builder, prefill, is_fetched=is_fetched))


def _remove_initializer(builder: ServiceBuilder, workload: Node, *, is_fetched: bool) -> Node:
    pods = {
        field: _remove_from_pod(builder, pod, is_fetched=is_fetched)
        for field in ("template", "worker")
        if (pod := workload.get(field)) is not None
    }
    return set_fields(workload, **pods) if pods else workload


def _remove_from_pod(builder: ServiceBuilder, pod: Node, *, is_fetched: bool) -> Node:
    entries = pod.get("initContainers")
    items = entries.items if entries is not None else []
    kept = [item for item in items if item.text("name") != INITIALIZER]
    if entries is None or len(kept) == len(items):
        return pod
    for container in items:
        if container.text("name") != INITIALIZER:
            continue
        if is_fetched:
            _convert_fetcher(builder, container)
        else:
            builder.report.left_out(
                container.field,
                "ignored, as in KServe: models in volumes and images are not downloaded",
            )
    return set_fields(pod, initContainers=Node(entries.field, kept) if kept else None)


def _convert_fetcher(builder: ServiceBuilder, container: Node) -> None:
    report = builder.report
    for key, user_field in container.content.items():
        target, field = (*_FETCHER, key), user_field
        if key == "resources" and isinstance(user_field.content, dict):
            # KServe's defaults apply, too. Without requests Kubernetes would request the limits.
            field = merge(make_node(user_field.field, {"requests": _REQUESTS}), user_field)
        present = builder.get(target)
        if key == "name":
            report.consume(field.field)
        elif key in _CONTROLLED_FIELDS:
            report.left_out(field.field, "KServe's controller overwrites it; ignored")
        elif key not in _SUPPORTED_FIELDS:
            report.unsupported(
                field.field,
                "is not supported; of the storage-initializer only "
                f"{', '.join(_SUPPORTED_FIELDS)} are converted",
            )
        elif present is None:
            copy_node(builder, target, field)
        elif present == field.value:
            report.consume(*(leaf.field for _, leaf in user_field.leaves()))
        else:
            report.unsupported(field.field, "must be the same in all pods of a service")
