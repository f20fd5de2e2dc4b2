"""Measures the library's overhead, as ratios of two things that are timed in one run."""
