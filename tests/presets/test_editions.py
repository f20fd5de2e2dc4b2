"""Editions: defaults that stay the same in later versions of the library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusioninfer_pulumi import load, plan_service, render
from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    find_family,
    find_sidecar_image_family,
)
from fusioninfer_pulumi.engines import engine_presets
from fusioninfer_pulumi.engines.engine_presets import get_edition_defaults
from fusioninfer_pulumi.findings import InvalidServiceError

GAIE = "registry.k8s.io/gateway-api-inference-extension/epp"
LLM_D = "ghcr.io/llm-d/llm-d-router-endpoint-picker"
SIDECAR = "ghcr.io/llm-d/llm-d-router-disagg-sidecar"
#: Engines, endpoint pickers and sidecar of each edition. Rows are added but never changed.
VALUES = {
    "2026.11": ("0.32.0", "0.5.23", f"{GAIE}:v1.2.1", f"{GAIE}:v1.5.0", f"{LLM_D}:v0.10.0",
                f"{SIDECAR}:v0.10.0"),
}  # fmt: skip


def test_edition_has_the_releases_and_images_of_its_table() -> None:
    assert [edition.value for edition in Edition] == list(VALUES) == sorted(VALUES)
    for edition in Edition:
        row = get_edition_defaults(edition)
        images = row.picker, row.flow_control_picker, row.pd_picker, row.sidecar
        releases = (row.presets[name].release for name in ("vllm", "sglang"))
        assert (*releases, *images) == VALUES[edition.value]
        family = find_family(row.pd_picker)
        assert family is not None
        assert find_family(row.picker)
        assert find_family(row.flow_control_picker)
        assert find_sidecar_image_family(row.sidecar) is family


def document(strategy: str, picker: Any = None, **spec: Any) -> Any:
    """Return a service that names no image."""
    kinds = [("serve", "worker")]
    if strategy == "pd-disaggregation":
        kinds = [("prefill", "prefiller"), ("decode", "decoder")]
    roles = [{"name": name, "componentType": kind, "accelerator": "H100"} for name, kind in kinds]
    router = {"name": "router", "componentType": "router", "strategy": strategy, "gateway": {},
              "httproute": {}, "endpointPicker": picker or {}}  # fmt: skip
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "svc"},
        "spec": {"model": {"uri": "hf://Qwen/Qwen3-8B"}, "roles": [router, *roles], **spec},
    }


def images(strategy: str, edition: str | None, **picker: Any) -> set[str]:
    """Return the images of a service that names none."""
    more = {"edition": edition} if edition else {}
    (args,) = load(document(strategy, picker, **more))
    result = set()
    for manifest in render(plan_service(args)):
        spec: Any = manifest.get("spec") or {}
        spec = spec.get("leaderWorkerTemplate", {}).get("workerTemplate") or spec.get("template")
        pod = (spec or {}).get("spec") or {}
        items = (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))
        result |= {item["image"] for item in items if "image" in item}
    return result


@pytest.mark.parametrize(
    ("strategy", "picker", "field"),
    [
        ("prefix-cache", {}, "picker"),
        ("prefix-cache", {"flowControl": True}, "flow_control_picker"),
        ("pd-disaggregation", {}, "pd_picker"),
    ],
)
def test_service_of_an_older_edition_keeps_its_images(
    strategy: str, picker: Any, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = images(strategy, None, **picker)
    assert newest == images(strategy, "2026.11", **picker)
    row = get_edition_defaults()
    vllm = replace(row.presets["vllm"], release="0.31.0")
    older = {"picker": f"{GAIE}:v1.2.0", "flow_control_picker": f"{GAIE}:v1.4.0",
             "pd_picker": f"{LLM_D}:v0.9.0", "sidecar": f"{SIDECAR}:v0.9.0"}  # fmt: skip
    changed = engine_presets.EditionDefaults({**row.presets, "vllm": vllm}, **older)
    monkeypatch.setitem(engine_presets._EDITIONS, Edition.OF_2026_11, changed)
    kept = images(strategy, "2026.11", **picker)
    sidecar = {older["sidecar"]} if strategy == "pd-disaggregation" else set()
    assert kept == {"vllm/vllm-openai:v0.31.0", older[field]} | sidecar


def test_unknown_edition_error_lists_known_editions() -> None:
    with pytest.raises(InvalidServiceError, match=r"edition: .*2026\.11"):
        images("prefix-cache", "2026.10")


def test_diff_names_images_that_follow_a_new_default() -> None:
    def plan_and_objects(strategy: str, **spec: Any) -> tuple[Any, list[Any]]:
        plan = plan_service(*load(document(strategy, **spec)))
        return plan, list(render(plan))

    old = plan_and_objects("prefix-cache", engine={"version": "0.31.0"})
    new = plan_and_objects("prefix-cache")
    notes = compare(old[1], new[1], plans=([old[0]], [new[0]])).notes
    expected = (
        "vllm/vllm-openai:v0.32.0 replaces vllm/vllm-openai:v0.31.0 as the library default; set "
        "`edition` to keep the old one"
    )
    assert [note for note in notes if "edition" in note] == [expected]
    notes = compare(new[1], old[1], plans=([new[0]], [old[0]])).notes
    assert not [note for note in notes if "edition" in note]
