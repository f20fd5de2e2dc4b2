"""Reads the cluster after an update and explains why replicas failed."""
