"""Measures what the library costs, as ratios of two things that are timed in one run."""
