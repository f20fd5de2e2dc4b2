"""Hypothesis profiles and fixtures of these tests."""

from __future__ import annotations

import profiles

from tests.conftest import output

__all__ = ["output"]

profiles.load()
