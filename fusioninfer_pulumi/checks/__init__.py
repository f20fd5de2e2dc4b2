"""Judges what is built: one list of checks for each stage."""
