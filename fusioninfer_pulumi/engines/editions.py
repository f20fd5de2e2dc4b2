"""Editions: what the library chooses where a service does not, and keeps for an edition.

A new default belongs to a new edition, whose row replaces fields of the row before. Editions stay
for at least a year: `tests/presets/test_editions.py` holds their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.engines.engine_presets import PRESETS, EnginePreset


@dataclass(frozen=True)
class EditionDefaults:
    """The presets of engines by name, and images.

    `picker` is what the router document pins. It holds no requests without pods
    (`holding_picker`), and does not support `pd-disaggregation` (`pd_picker`).
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


def edition_defaults(edition: Edition | None = None) -> EditionDefaults:
    """Return the defaults of an edition, by default of the newest."""
    return _EDITIONS[edition or list(Edition)[-1]]
