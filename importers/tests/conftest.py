"""Hypothesis profiles of these tests."""

from __future__ import annotations

import profiles

profiles.load()
