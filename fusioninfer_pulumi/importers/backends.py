"""How a route of ours names the pool of a service of ours."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.kube import names


def pool_backend(service: Any) -> dict[str, Any]:
    """The backendRef to a service's InferencePool, without a weight."""
    return {
        "group": names.POOL_GROUP,
        "kind": names.POOL_KIND,
        "name": names.inference_pool(str(service)),
    }
