"""Converts Acme's `LanguageModel` to `InferenceService`."""

from collections.abc import Sequence

from fusioninfer_pulumi.plugins.importers import (
    API_VERSION,
    KIND,
    Conversion,
    ConvertedService,
    FieldOrigin,
    Location,
    Origins,
    Rule,
    SourceDocument,
    error,
    warning,
)

SUPPORTED_FIELDS = ("model", "gpus", "replicas")
ACME_FIELD = Rule("acme-field")


def convert(documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
    """Convert all documents of one input, which may reference each other."""
    services, findings = [], []
    for document in documents:
        spec = document.raw["spec"]
        for field in sorted(spec.keys() - set(SUPPORTED_FIELDS)):
            make_finding = warning if allow_lossy else error
            message = f"cannot be carried over; supported: {', '.join(SUPPORTED_FIELDS)}"
            findings.append((document.origin, make_finding(ACME_FIELD, (field,), message)))
        container = {
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--model", spec["model"]],
            "resources": {"limits": {"nvidia.com/gpu": spec["gpus"]}},
        }
        role = {
            "name": "serve",
            "componentType": "worker",
            "replicas": spec.get("replicas", 1),
            "template": {"spec": {"containers": [container]}},
        }
        manifest = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": document.name, "namespace": document.namespace},
            "spec": {"roles": [role]},
        }
        # Findings about these fields of the service point to the fields of the document.
        limits = ("roles", 0, "template", "spec", "containers", 0, "resources", "limits")
        origins: dict[Location, FieldOrigin] = {
            ("roles", 0): FieldOrigin(document.at("spec"), copied=False),
            ("roles", 0, "replicas"): FieldOrigin(document.at("spec", "replicas"), copied=True),
            (*limits, "nvidia.com/gpu"): FieldOrigin(document.at("spec", "gpus"), copied=True),
        }
        services.append(ConvertedService(document, manifest, Origins(document.origin, origins)))
    return Conversion(tuple(services), tuple(findings))
