"""Pulumi components that put large language models on Kubernetes."""

__version__ = "0.1.0"
