"""Editions: fixed sets of defaults that the library applies.

A changed default needs a new edition. Editions are supported for at least a year, and
`tests/presets/test_editions.py` pins their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.engines.engine_presets import PRESETS, EnginePreset


class EditionDefaults(NamedTuple):
    """The engine presets by name, and the images of endpoint pickers and sidecars.

    `picker` is the release in FusionInfer's router document. Unlike `holding_picker` it cannot hold
    requests while no pod is ready; unlike `pd_picker` it does not support `pd-disaggregation`.
    """

    presets: Mapping[str, EnginePreset]
    picker: str
    holding_picker: str
    pd_picker: str
    sidecar: str


_EDITIONS = {
    Edition.OF_2026_11: EditionDefaults(
        PRESETS,
        picker="registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1",
        holding_picker="registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
        pd_picker="ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
        sidecar="ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0",
    ),
}


def get_edition_defaults(edition: Edition | None = None) -> EditionDefaults:
    """Return the defaults of an edition, the newest edition by default."""
    return _EDITIONS[edition or list(Edition)[-1]]
