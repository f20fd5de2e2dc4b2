"""From Kthena's documents to services of ours: the one entry to this dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.conversion import Conversion
from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.kthena.gang import carry_gang
from fusioninfer_pulumi.importers.kthena.models import ModelServing
from fusioninfer_pulumi.importers.kthena.routes import Shared, carry_route, carry_shared
from fusioninfer_pulumi.importers.kthena.routing_models import ModelRoute, ModelServer
from fusioninfer_pulumi.importers.kthena.scaling import Policy, carry_policies
from fusioninfer_pulumi.importers.kthena.scaling_models import (
    AutoscalingPolicy,
    AutoscalingPolicyBinding,
)
from fusioninfer_pulumi.importers.kthena.servers import Server, Serving, carry_server
from fusioninfer_pulumi.importers.kthena.serving import carry_serving
from fusioninfer_pulumi.importers.kthena.traffic import say_traffic
from fusioninfer_pulumi.importers.metadata import companion
from fusioninfer_pulumi.importers.model import read

#: Labels of what Kthena's controllers make of a ModelBooster (pkg/model-booster-controller/utils).
_OWN = "workload.serving.volcano.sh/"
_BOOSTER = (
    "of a ModelBooster Kthena's controller makes a ModelServing, a ModelServer and a ModelRoute, "
    "with programs of its own in the pods; read those, as they are in the cluster: kubectl get "
    "modelservings.workload.serving.volcano.sh,modelservers.networking.serving.volcano.sh,"
    "modelroutes.networking.serving.volcano.sh "
    "-l workload.serving.volcano.sh/model-name={name} -o yaml"
)


def convert(documents: Sequence[Given], *, allow_lossy: bool) -> Conversion:
    """Converts the Kthena documents of one input.

    Args:
        documents: ModelServings, and whatever says more about them.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.

    Returns:
        One service for each ModelServing; one that a ModelServer selects has a router, roles that
        an AutoscalingPolicy scales have an autoscaler.
    """
    book = Book(documents, allow_lossy=allow_lossy)
    servings: list[Serving] = []
    for document in _of(documents, "ModelServing"):
        serving = read(book, document, ModelServing)
        if serving is not None:
            carrier = book.service(document)
            carry_serving(carrier, serving)
            servings.append(Serving(serving, carrier))
    servers: dict[tuple[Any, Any], Server] = {}
    for document in _of(documents, "ModelServer"):
        model_server = read(book, document, ModelServer)
        if model_server is None:
            continue
        companion(book, document, _OWN)
        server = carry_server(book, document, model_server.spec, servings)
        if server is not None:
            servers[document.namespace, document.name] = server
    shared: list[Shared] = []
    for document in _of(documents, "ModelRoute"):
        route = read(book, document, ModelRoute)
        if route is not None:
            companion(book, document, _OWN)
            shared += carry_route(book, document, route.spec, servers)
    carry_shared(shared)
    for server in servers.values():
        say_traffic(server)
    _scaling(book, documents, servings)
    for each in servings:
        carry_gang(each)
    for document in _of(documents, "ModelBooster"):
        book.lost(document.at(), _BOOSTER.format(name=document.name))
    return book.conversion()


def _scaling(book: Book, documents: Sequence[Given], servings: Sequence[Serving]) -> None:
    policies: list[Policy] = []
    for document in _of(documents, "AutoscalingPolicy"):
        policy = read(book, document, AutoscalingPolicy)
        if policy is not None:
            companion(book, document, _OWN)
            policies.append(Policy(document, policy.spec))
    bindings = []
    for document in _of(documents, "AutoscalingPolicyBinding"):
        binding = read(book, document, AutoscalingPolicyBinding)
        if binding is not None:
            companion(book, document, _OWN)
            bindings.append((document, binding.spec))
    carry_policies(book, policies, bindings, servings)


def _of(documents: Sequence[Given], kind: str) -> list[Given]:
    return [document for document in documents if document.kind == kind]
