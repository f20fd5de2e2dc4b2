"""Configurations of managers, which stand as YAML in ConfigMaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml


def configurations(
    config_maps: Iterable[Mapping[str, Any]], group: str
) -> Iterator[Mapping[str, Any]]:
    """Yields the configurations of an API group in any texts of ConfigMaps."""
    for config_map in config_maps:
        for text in (config_map.get("data") or {}).values():
            if group in text:
                yield from _configurations(text, group)


def _configurations(text: str, group: str) -> list[Mapping[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(text))
    # Other texts of a ConfigMap, such as templates, are no YAML: they configure no manager.
    except Exception:  # noqa: BLE001
        return []
    return [
        document
        for document in documents
        if isinstance(document, Mapping) and str(document.get("apiVersion")).startswith(group)
    ]
