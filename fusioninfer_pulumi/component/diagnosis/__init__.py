"""Tells why replicas did not become available: reads the cluster when an update has failed."""
