"""Checks of built services: one list for each stage."""
