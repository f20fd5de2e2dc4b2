"""Facts of Kubernetes and edits of its objects that belong to no feature."""
