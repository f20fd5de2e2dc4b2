"""Finished pod templates of a role."""
