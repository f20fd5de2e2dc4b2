"""Checks of finished pods."""
