"""A real cluster on loopback with simulated nodes, and its clients."""

from e2e.harness.api import ApiError, Client
from e2e.harness.cluster import Cluster
from e2e.harness.components import COMPONENTS, KUBE_SCHEDULER, KUEUE, KWOK, LWS, VOLCANO
from e2e.harness.endpoint_picker import EndpointPicker
from e2e.harness.processes import ProgramFailedError
from e2e.harness.resources import Object

__all__ = [
    "COMPONENTS",
    "KUBE_SCHEDULER",
    "KUEUE",
    "KWOK",
    "LWS",
    "VOLCANO",
    "ApiError",
    "Client",
    "Cluster",
    "EndpointPicker",
    "Object",
    "ProgramFailedError",
]
