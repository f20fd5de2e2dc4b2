"""From a plan to plain Kubernetes objects: no Pulumi, no decisions, one module per kind family."""

from fusioninfer_pulumi.manifests.render import render, workloads

__all__ = ["render", "workloads"]
