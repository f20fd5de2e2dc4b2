"""Facts about Kubernetes and helpers for its objects that every feature shares."""
