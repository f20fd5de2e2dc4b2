"""KServe's annotation that parks a whole service."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Given

#: Scales everything to nothing (GetForceStopRuntime of KServe's pkg/utils, any letter case).
STOP = "serving.kserve.io/stop"


def stopped_by(document: Given) -> At | None:
    """The annotation that stops a service, None where it runs."""
    value = (document.metadata.get("annotations") or {}).get(STOP)
    stops = isinstance(value, str) and value.lower() == "true"
    return document.at("metadata", "annotations", STOP) if stops else None


def carry_stop(carrier: Carrier) -> None:
    """Parks every role that runs a model, where the service is stopped.

    Args:
        carrier: The service, with all of its roles.
    """
    stop = stopped_by(carrier.main)
    if stop is None:
        return
    for index, role in enumerate(carrier.roles):
        if role["componentType"] != "router":
            carrier.derive(("spec", "roles", index, "replicas"), 0, stop)
