"""Findings about source manifests use no field names of InferenceService."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from json_schema import manifest_schema
from mutations import JUNK, locations, replace_value

from fusioninfer_importers.model import ImportedModel
from importers.tests import kserve_samples, kthena_samples, modelplane_samples
from importers.tests.reads import read_source, warn
from importers.tests.test_invalid_values import SETS

Manifest = dict[str, Any]
HERE = Path(__file__).parent
#: Fields of Kubernetes and of the Gateway API that InferenceService and the other systems share.
_KUBERNETES = {
    "allowedRoutes", "backendRefs", "emptyDir", "matchLabels", "maxReplicas", "minReplicas",
    "mountPath", "parentRefs", "readOnly", "schedulerName", "sectionName", "sizeLimit",
}  # fmt: skip
#: Lowercase names and values of our fields that are not English words.
_WORDS = {"httproute", "multinode", "PerRole", "PerReplica", "prefiller", "decoder"}
#: Paths of our fields whose parts are English words.
_PATHS = re.compile(
    r"\b(?:model|rollout|autoscaling|parallelism|placement|startup|monitoring|gateway)\.[a-z]\w+"
)
#: Rules whose messages may name a field of InferenceService, with the reason.
EXCEPTIONS = {
    "command-not-editable": "names the launcher, whose arguments contradict those of the container",
    "launcher-contradicted": "as command-not-editable",
    "release-without-feature": "as command-not-editable",
    "image-without-ray": "as command-not-editable",
}


def list_our_fields() -> set[str]:
    """Return the names of InferenceService's fields that are not English words."""
    result = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            result.update(value.get("properties", {}))
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(manifest_schema())
    return {finding for finding in result if re.search("[A-Z]", finding)} | _WORDS


def list_source_fields(system: str) -> set[str]:
    """Return the names of the fields of a system's kinds."""
    package = f"fusioninfer_importers.{system.lower()}"
    importlib.import_module(f"{package}.models")
    return {
        field.alias or name
        for model in _models(ImportedModel)
        if model.__module__.startswith(package)
        for name, field in model.model_fields.items()
    }


def _models(base: type[ImportedModel]) -> Iterator[type[ImportedModel]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from _models(subclass)


def generate_inputs(system: str) -> Iterator[list[Manifest]]:
    """Yield valid documents of a system, and copies of them with one wrong value."""
    valid = [SETS[system], *SAMPLES[system]]
    if (cases := HERE / "originals" / f"{system.lower()}.yaml").exists():
        valid += [case["documents"] for case in yaml.safe_load(cases.read_text("utf-8"))]
    yield from valid
    draw = random.Random(1)
    for _ in range(40):
        documents = draw.choice(valid)
        place = draw.choice([at for at in locations(documents) if len(at) > 2])
        yield replace_value(documents, place, draw.choice(JUNK))


def find_our_fields(message: str, fields: set[str], system: str) -> list[str]:
    """Return the fields of InferenceService that a message names."""
    words = set(re.findall(r"[A-Za-z][A-Za-z0-9]*", message)) & fields
    # KServe has paths that begin with the same words: model.uri.
    paths = [] if system == "KServe" else _PATHS.findall(message)
    return [*sorted(words), *paths]


_PAIR = kserve_samples.pod(command=["vllm", "serve", "m"])
SAMPLES: dict[str, list[list[Manifest]]] = {
    "KServe": [
        [kserve_samples.llm(template=_PAIR, prefill={"template": _PAIR})],
        [kserve_samples.llm(router={})],
        [kserve_samples.llm(router={"route": {}, "scheduler": {"config": {"inline": ""}}})],
        [kserve_samples.llm(kvCacheOffloading={"cpu": "10Gi"})],
        [kserve_samples.llm(rolloutStrategy={"maxUnavailable": 0})],
    ],
    "Kthena": [
        [kthena_samples.serving(*kthena_samples.PAIR)],
        [kthena_samples.serving(*kthena_samples.PAIR), kthena_samples.server()],
        [kthena_samples.serving(), kthena_samples.server(), kthena_samples.route()],
        [
            kthena_samples.serving(
                kthena_samples.role(replicas=2, maxUnavailable=0),
                rolloutStrategy={"type": "RoleRollingUpdate"},
            )
        ],
    ],
    "Modelplane": [
        [modelplane_samples.paired()],
        [modelplane_samples.paired(replicas=2)],
        [modelplane_samples.released(replicas=2), modelplane_samples.model_service()],
        [modelplane_samples.proposed()],
        [modelplane_samples.cached("--model=other"), modelplane_samples.cache()],
    ],
}


@pytest.mark.parametrize("system", SETS)
@pytest.mark.slow
def test_messages_name_no_inference_service_fields(system: str) -> None:
    fields = list_our_fields() - list_source_fields(system) - _KUBERNETES
    expected = {
        (finding.rule, finding.message)
        for documents in generate_inputs(system)
        for _, finding in read_source(*documents).findings
    }
    assert len(expected) > 20
    result = {
        message: find_our_fields(message, fields, system)
        for rule, message in expected
        if rule not in EXCEPTIONS
    }
    assert {message: names for message, names in result.items() if names} == {}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            SAMPLES["KServe"][0],
            (
                "f: warning: spec: no router pairs prefill with decode; set router with route "
                "and scheduler"
            ),
        ),
        (
            SAMPLES["KServe"][1],
            (
                "f: warning: router: router has neither route nor gateway, so there is no "
                "HTTPRoute; set route: {}"
            ),
        ),
        (
            SAMPLES["Modelplane"][0],
            (
                "f: warning: template.spec.serving: no route leads to these pods; pass the "
                "ModelService of this ModelDeployment too"
            ),
        ),
    ],
)
def test_messages_use_the_terms_of_the_system(documents: list[Manifest], expected: str) -> None:
    assert expected in warn(*documents)
