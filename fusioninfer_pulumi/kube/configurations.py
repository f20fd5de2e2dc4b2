"""Configurations of managers, which stand as YAML in ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def configurations(text: str, group: str) -> list[Mapping[str, Any]]:
    """Returns the configurations of an API group in a text of any ConfigMap."""
    if group not in text:
        return []
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
