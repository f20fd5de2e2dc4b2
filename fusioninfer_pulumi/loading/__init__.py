"""Loads manifests of InferenceServices and, through importers, of other systems."""

from __future__ import annotations

from fusioninfer_pulumi.loading.load import load, load_inventory, loads

__all__ = ["load", "load_inventory", "loads"]
