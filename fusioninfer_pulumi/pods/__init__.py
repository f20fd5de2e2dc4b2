"""Builds the pod templates of a role."""
