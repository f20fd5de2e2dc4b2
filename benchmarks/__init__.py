"""Measures the library's overhead as the ratio of its costs to those of a baseline."""
