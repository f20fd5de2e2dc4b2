"""Converts credentials of downloads, which KServe reads from a ServiceAccount's Secrets.

Its controller adds them to the storage-initializer (pkg/credentials in KServe's sources, with the
settings that its manifests install).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder, filter_kind
from fusioninfer_importers.kserve._nodes import Node
from fusioninfer_importers.kserve.scheduler import Objects
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Location, SourceDocument, SourceField

#: API version, kind, namespace and name of an object.
ObjectKey = tuple[Any, Any, Any, Any]

ACCOUNT, SECRET = "ServiceAccount", "Secret"
_DEFAULT = "default"
_ACCOUNT_NAME = ("template", "serviceAccountName")
#: Annotation of a service whose downloads use this Secret instead of the ServiceAccount's.
_SECRET_NAME = "serving.kserve.io/storageSecretName"  # noqa: S105  # the key of an annotation
#: Annotation of a ServiceAccount that gives pods an IAM role.
_IAM_ROLE = "eks.amazonaws.com/role-arn"
_TOKEN, _ACCESS_KEY = "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"
_ENDPOINT, _HTTPS, _REGION = "S3_ENDPOINT", "S3_USE_HTTPS", "AWS_DEFAULT_REGION"
#: Keys of further S3 settings in a Secret, which are also the variables' names, and the annotations
#: that take precedence.
_S3_SETTINGS = {
    _ENDPOINT: "serving.kserve.io/s3-endpoint",
    _HTTPS: "serving.kserve.io/s3-usehttps",
    _REGION: "serving.kserve.io/s3-region",
    "S3_VERIFY_SSL": "serving.kserve.io/s3-verifyssl",
    "awsAnonymousCredential": "serving.kserve.io/s3-useanoncredential",
    "S3_USER_VIRTUAL_BUCKET": "serving.kserve.io/s3-usevirtualbucket",
    "S3_USE_ACCELERATE": "serving.kserve.io/s3-useaccelerate",
    "AWS_CA_BUNDLE": "serving.kserve.io/s3-cabundle",
    "AWS_CA_BUNDLE_CONFIGMAP": "serving.kserve.io/s3-cabundle-configmap",
}
_CA_BUNDLE = "AWS_CA_BUNDLE_CONFIGMAP"
_MODEL: Location = ("spec", "model")


def find_referenced_objects(
    documents: Sequence[SourceDocument], services: Sequence[SourceDocument]
) -> Iterator[ObjectKey]:
    """Yield ServiceAccounts that services may use, and Secrets that services or accounts name."""
    workloads = [("spec",), ("spec", "prefill")]
    values = [doc.at(*field, *_ACCOUNT_NAME).value for doc in documents for field in workloads]
    names = {_DEFAULT, *(name for name in values if isinstance(name, str))}
    for service in services:
        yield from (("v1", ACCOUNT, service.namespace, name) for name in names)
        secret = service.at("metadata", "annotations", _SECRET_NAME).value
        if isinstance(secret, str):
            yield "v1", SECRET, service.namespace, secret
    for account in filter_kind(documents, ACCOUNT):
        for name, _ in _find_secrets(account):
            yield "v1", SECRET, account.namespace, name


def convert_credentials(
    builder: ServiceBuilder, spec: Node, accounts: Objects, secrets: Objects
) -> None:
    """Set the credentials of the model's download from the Secrets that KServe uses."""
    models = [spec.get("model"), *spec.list_at("model", "lora", "adapters")]
    uris = [model.text("uri") or "" for model in models if model is not None]
    schemes = {uri.partition("://")[0] for uri in uris} & {"hf", "s3"}
    enabled = spec.get("storageInitializer", "enabled")
    if not schemes or (enabled is not None and enabled.content is False):
        return
    secret_annotation = builder.main.at("metadata", "annotations", _SECRET_NAME)
    if secret_annotation.value is not None:
        _use_secret(builder, schemes, secrets, secret_annotation.value, secret_annotation)
        return
    default = Node(spec.field, _DEFAULT)
    workloads = [workload for workload in (spec, spec.get("prefill")) if workload is not None]
    names = [workload.get(*_ACCOUNT_NAME) or default for workload in workloads]
    for name, source_field in {str(name.content): name.field for name in names}.items():
        _use_account(builder, schemes, accounts, secrets, name, source_field)


def _use_account(
    builder: ServiceBuilder,
    schemes: set[str],
    accounts: Objects,
    secrets: Objects,
    name: str,
    source_field: SourceField,
) -> None:
    namespace, report = builder.main.namespace, builder.report
    account = accounts.get((namespace, name))
    if account is None:
        message = (
            f"KServe downloads with the credentials in the Secrets of ServiceAccount {name}, which "
            "is not in this input; add it and its Secrets as documents"
        )
        if name == _DEFAULT and "s3" not in schemes:
            report.chosen(source_field / "template" / "serviceAccountName", f"not set; {message}")
        else:
            report.warning(REFERENCE_MISSING, source_field, message)
        return
    _record_use(builder, account)
    if _IAM_ROLE in (account.metadata.get("annotations") or {}) and "s3" in schemes:
        _use_s3_settings(builder, account)
    for secret, field in _find_secrets(account):
        _use_secret(builder, schemes, secrets, secret, field)


def _use_secret(
    builder: ServiceBuilder, schemes: set[str], secrets: Objects, name: Any, field: SourceField
) -> None:
    """Refer to a Secret as KServe's controller does (mountSecretCredential)."""
    report = builder.report
    secret = secrets.get((builder.main.namespace, name))
    if secret is None:
        report.warning(
            REFERENCE_MISSING,
            field,
            f"Secret {name} is not in this input, so the download gets no credentials from it; add "
            "it as a document",
        )
        return
    keys = {*(secret.raw.get("data") or {}), *(secret.raw.get("stringData") or {})}
    _record_use(builder, secret)
    if _ACCESS_KEY in keys and "s3" in schemes:
        builder.default((*_MODEL, "s3", "secretName"), name, secret.at("metadata", "name"))
        _use_s3_settings(builder, secret)
    elif _TOKEN in keys and _ACCESS_KEY not in keys and "hf" in schemes:
        builder.default((*_MODEL, "tokenSecret", "name"), name, secret.at("metadata", "name"))
    else:
        report.left_out(secret.at("data"), "has no credentials for this download; ignored")


def _use_s3_settings(builder: ServiceBuilder, source: SourceDocument) -> None:
    """Copy the settings in the annotations and the data of an object (BuildS3EnvVars)."""
    settings: dict[str, tuple[str, SourceField]] = {}
    for key, annotation in _S3_SETTINGS.items():
        field = source.at("metadata", "annotations", annotation)
        value = field.value
        if value is None:
            value, field = _read_secret_value(source, key)
        if value:
            settings[key] = (str(value).strip(), field)
    if _CA_BUNDLE in settings:
        _, field = settings.pop(_CA_BUNDLE)
        builder.report.unsupported(
            field, "is not supported; mount the certificates in a custom image"
        )
    region = settings.pop(_REGION, None)
    if region is not None:
        builder.derive((*_MODEL, "s3", "region"), *region)
    if _ENDPOINT in settings:
        endpoint, field = settings[_ENDPOINT]
        uses_https, _ = settings.get(_HTTPS, ("", field))
        host, url = endpoint, f"{'http' if uses_https == '0' else 'https'}://{endpoint}"
        for scheme, value in (("https://", "1"), ("http://", "0")):
            if endpoint.lower().startswith(scheme):
                host, url, uses_https = endpoint[len(scheme) :], endpoint, value
        builder.derive((*_MODEL, "s3", "endpoint"), url, field)
        settings[_ENDPOINT] = (host, field)
        if uses_https:
            settings[_HTTPS] = (uses_https, field)
    else:
        settings.pop(_HTTPS, None)
    variables = (*_MODEL, "fetcher", "env")
    for key, (value, field) in settings.items():
        position = len(builder.get(variables) or ())
        builder.derive((*variables, position), {"name": key, "value": value}, field)


def _read_secret_value(secret: SourceDocument, key: str) -> tuple[str | None, SourceField]:
    plain, encoded = secret.at("stringData", key), secret.at("data", key)
    if plain.value is not None:
        return str(plain.value), plain
    try:
        return base64.b64decode(str(encoded.value or "")).decode(), encoded
    except ValueError:
        return None, encoded


def _record_use(builder: ServiceBuilder, document: SourceDocument) -> None:
    builder.add_source(document)
    builder.report.left_out(
        document.at("kind"), "is read for the download's credentials; apply it separately"
    )


def _find_secrets(account: SourceDocument) -> Iterator[tuple[str, SourceField]]:
    """Yield the names of a ServiceAccount's Secrets, with their fields."""
    entries = account.at("secrets")
    for index, entry in enumerate(entries.value if isinstance(entries.value, list) else ()):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(name, str):
            yield name, entries / index / "name"
