"""Endpoint picker families by image reference."""

from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    FAMILIES,
    explain_unknown_image,
    find_family,
)

GAIE = "registry.k8s.io/gateway-api-inference-extension/epp"


@each_row(
    ("image", "family"),
    [
        (f"{GAIE}:v1.2.0", "gaie-1.2"),
        (f"{GAIE}:v1.2.1", "gaie-1.2"),
        (f"{GAIE}:v1.3.0", "gaie-1.3"),
        (f"{GAIE}:v1.3.1", "gaie-1.3"),
        (f"{GAIE}:v1.4.0", "gaie-1.4"),
        (f"{GAIE}:v1.5.0", "gaie-1.5"),
        ("ghcr.io/llm-d/llm-d-inference-scheduler:v0.7.1", None),
        ("ghcr.io/llm-d/llm-d-inference-scheduler:v0.8.0", None),
        ("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0", "llm-d-0.9"),
        ("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0", "llm-d-0.10"),
        ("ghcr.io/llm-d/llm-d-router-endpoint-picker:v1.0.0", "llm-d-1.0"),
        ("registry.example:5000/mirror/epp:v1.2.1", "gaie-1.2"),
        ("epp:1.5.0", "gaie-1.5"),
        (f"{GAIE}:v1.2.1@sha256:{'0' * 64}", "gaie-1.2"),
        (f"{GAIE}@sha256:{'0' * 64}", None),
        (GAIE, None),
        (f"{GAIE}:latest", None),
        (f"{GAIE}:main", None),
        (f"{GAIE}:v1.2.1-rc.1", None),
        (f"{GAIE}:v1.1.0", None),
        (f"{GAIE}:v1.6.0", None),
        ("registry.k8s.io/gateway-api-inference-extension/lwepp:v1.6.0", None),
        # The name changed with v0.9, so these images do not exist.
        ("ghcr.io/llm-d/llm-d-inference-scheduler:v0.9.0", None),
        ("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.8.0", None),
        ("ghcr.io/llm-d/llm-d-inference-scheduler:v0.6.0", None),
        ("registry.example:5000/my-picker:v1.2.1", None),
        ("registry.example/epp:v1.2.1/other", None),
        ("", None),
    ],
)
def test_image_determines_family(image: str, family: str | None) -> None:
    result = find_family(image)
    assert (result and result.name) == family


def test_default_image_belongs_to_its_family() -> None:
    for name, family in FAMILIES.items():
        assert find_family(family.image) is family
        assert family.name == name


ROUTER = "ghcr.io/llm-d/llm-d-router-endpoint-picker"


@each_row(
    "image", ["mine:v1", f"{GAIE}:latest", f"{GAIE}:v1.1.0", "lwepp:v1.6.0", f"{ROUTER}:v0.8.0"]
)
def test_unknown_image_names_supported_releases(image: str) -> None:
    message = explain_unknown_image(image)
    assert message.startswith(f'"{image}" is not a supported endpoint picker; supported are v1.2.0')
    assert f"v1.2.0 to v1.5.0 of {GAIE} and v0.9.0 to v1.0.0 of {ROUTER}" in message
    assert f"set endpointPicker.family ({', '.join(FAMILIES)})" in message


@given(st.text())
def test_image_reference_never_raises(image: str) -> None:
    if find_family(image) is None:
        explain_unknown_image(image)
