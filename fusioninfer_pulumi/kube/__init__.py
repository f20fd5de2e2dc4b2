"""Facts about Kubernetes, and helpers for Kubernetes objects that several packages use."""
