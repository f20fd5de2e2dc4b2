"""No field of a source manifest is dropped silently: a changed value changes the result."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import Phase, given, settings, strategies as st
from profiles import examples

from fusioninfer_pulumi.findings import Origin, format_path
from fusioninfer_pulumi.loading.documents import LoadedDocument, load_documents
from importers.tests import (
    kserve_strategies,
    kthena_samples,
    kthena_strategies,
    modelplane_strategies,
)

Manifest = dict[str, Any]


Path = tuple[str | int, ...]


def leaves(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the paths of all scalars, empty mappings and empty lists, but not of nulls."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*at, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*at, index))
    elif value is not None:
        yield at


def find_dropped(
    documents: Sequence[Manifest],
    valid_values: Mapping[str, Sequence[Any]],
    companions: Sequence[Manifest] = (),
) -> list[str]:
    """Return fields that neither a service nor a finding depends on.

    Args:
        documents: The documents whose fields are changed, one at a time.
        valid_values: Valid values by key, for fields that do not accept every value.
        companions: More documents of the input, which are not changed.

    Returns:
        Fields whose change leaves all services equal, and which no finding names.
    """
    read = _read([*documents, *companions])
    result = []
    for number, document in enumerate(documents):
        for path in leaves(document):
            if path[0] in ("apiVersion", "kind") or _is_named(read, number, path):
                continue
            changed = copy.deepcopy([*documents, *companions])
            _change(changed[number], path, valid_values)
            again = _read(changed)
            if not _is_named(again, number, path) and _get_services(again) == _get_services(read):
                result.append(f"{number}: {format_path(path)}")
    return result


def _read(documents: Sequence[Manifest]) -> list[LoadedDocument]:
    value = [(Origin(str(number)), document) for number, document in enumerate(documents)]
    return load_documents(copy.deepcopy(value), allow_lossy=True)


def _get_services(read: Sequence[LoadedDocument]) -> list[Any]:
    return [item.manifest for item in read if item.manifest is not None]


def _is_named(read: Sequence[LoadedDocument], number: int, path: Path) -> bool:
    """Return whether a finding is about a field, one of its parents or one of its children."""
    relative = path[1:] if path[0] == "spec" else path
    # "" is the document as a whole, and so is `spec`.
    parts = range(1, len(relative) + 1)
    above = {"", str(path[0]), *(format_path(relative[:end]) for end in parts)}
    below = (f"{format_path(relative)}.", f"{format_path(relative)}[")
    return any(
        origin.file == str(number) and (finding.path in above or finding.path.startswith(below))
        for item in read
        for origin, finding in item.loading_findings
    )


def _change(document: Manifest, path: Path, valid_values: Mapping[str, Sequence[Any]]) -> None:
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    value, last = holder[path[-1]], path[-1]
    holder[last] = next(
        (other for other in valid_values.get(str(last), ()) if other != value),
        _make_different(value),
    )


def _make_different(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return {"x": "y"} if isinstance(value, dict) else ["x"]


# Each example converts a document once for each of its leaves: shrinking would take minutes.
quickly = settings(examples(0.3), phases=(Phase.explicit, Phase.reuse, Phase.generate))


@quickly
@given(kthena_strategies.model_servings())
def test_no_field_of_model_serving_is_dropped_silently(document: Manifest) -> None:
    assert find_dropped([document], kthena_strategies.VALID_VALUES) == []


@quickly
@given(modelplane_strategies.released())
def test_no_field_of_model_deployment_is_dropped_silently(document: Manifest) -> None:
    assert find_dropped([document], modelplane_strategies.VALID_VALUES) == []


@quickly
@given(modelplane_strategies.released(), modelplane_strategies.caches())
def test_no_field_of_model_cache_is_dropped_silently(deployment: Manifest, cache: Manifest) -> None:
    deployment["metadata"].pop("namespace", None)
    spec = deployment["spec"]
    spec.get("template", {"spec": spec})["spec"]["modelCacheRef"] = {"name": "cache"}
    assert find_dropped([deployment, cache], modelplane_strategies.VALID_VALUES) == []


@quickly
@given(modelplane_strategies.released(), modelplane_strategies.services())
def test_no_field_of_model_service_is_dropped_silently(
    deployment: Manifest, service: Manifest
) -> None:
    deployment["metadata"].pop("namespace", None)
    other = {**deployment, "metadata": {"name": "elsewhere"}}
    assert find_dropped([service], modelplane_strategies.VALID_VALUES, [deployment, other]) == []


@quickly
@given(modelplane_strategies.proposed())
def test_no_field_of_proposed_deployment_is_dropped_silently(document: Manifest) -> None:
    assert find_dropped([document], modelplane_strategies.VALID_VALUES) == []


@quickly
@given(kserve_strategies.llm_services())
def test_no_field_of_llm_inference_service_is_dropped_silently(documents: list[Manifest]) -> None:
    assert find_dropped(documents, kserve_strategies.VALID_VALUES) == []


@quickly
@given(
    kthena_strategies.model_servings(),
    kthena_strategies.model_servers(),
    kthena_strategies.model_routes(),
    st.booleans(),
)
def test_no_field_of_kthena_routing_is_dropped_silently(
    serving: Manifest, server: Manifest, route: Manifest, known: bool
) -> None:
    serving["metadata"].pop("namespace", None)
    # With a second target, weights split the requests.
    name = "modelserving.volcano.sh/name"
    other = [kthena_samples.serving(name="two"), kthena_samples.server("other", {name: "two"})]
    companions = [serving, *(other if known else ())]
    assert find_dropped([server, route], kthena_strategies.VALID_VALUES, companions) == []


@quickly
@given(kthena_strategies.model_servings(), kthena_strategies.policies())
def test_no_field_of_kthena_autoscaling_is_dropped_silently(
    serving: Manifest, policies: list[Manifest]
) -> None:
    serving["metadata"].pop("namespace", None)
    assert find_dropped(policies, kthena_strategies.VALID_VALUES, [serving]) == []
