"""Converts Kthena's documents: the entry point of this importer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_pulumi.importers.conversion import Conversion, ConversionReport
from fusioninfer_pulumi.importers.kthena.models import (
    AutoscalingPolicy,
    AutoscalingPolicyBinding,
    ModelRoute,
    ModelServer,
    ModelServing,
)
from fusioninfer_pulumi.importers.kthena.routes import Shared, convert_route, convert_shared
from fusioninfer_pulumi.importers.kthena.scaling import Policy, convert_policies
from fusioninfer_pulumi.importers.kthena.servers import Server, check_traffic_policy, convert_server
from fusioninfer_pulumi.importers.kthena.serving import Serving, convert_gang, convert_serving
from fusioninfer_pulumi.importers.model import validate
from fusioninfer_pulumi.importers.objects import consume_envelope
from fusioninfer_pulumi.importers.source import SourceDocument, of_kind

#: Labels of what Kthena's controllers make of a ModelBooster (pkg/model-booster-controller/utils).
_OWN = "workload.serving.volcano.sh/"
_BOOSTER = (
    "of a ModelBooster Kthena's controller makes a ModelServing, a ModelServer and a ModelRoute, "
    "with programs of its own in the pods; read those, as they are in the cluster: kubectl get "
    "modelservings.workload.serving.volcano.sh,modelservers.networking.serving.volcano.sh,"
    "modelroutes.networking.serving.volcano.sh "
    "-l workload.serving.volcano.sh/model-name={name} -o yaml"
)


def convert(documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
    """Converts Kthena's documents: one service for each ModelServing.

    A ModelServer adds a router, a ModelRoute its rules, an AutoscalingPolicy autoscaling of roles.
    """
    report = ConversionReport(documents, allow_lossy=allow_lossy)
    servings: list[Serving] = []
    for document in of_kind(documents, "ModelServing"):
        serving = validate(report, document, ModelServing)
        if serving is not None:
            builder = report.add_service(document)
            convert_serving(builder, serving)
            servings.append(Serving(serving, builder))
    servers: dict[tuple[Any, Any], Server] = {}
    for document in of_kind(documents, "ModelServer"):
        model_server = validate(report, document, ModelServer)
        if model_server is None:
            continue
        consume_envelope(report, document, _OWN)
        server = convert_server(report, document, model_server.spec, servings)
        if server is not None:
            servers[document.namespace, document.name] = server
    shared: list[Shared] = []
    for document in of_kind(documents, "ModelRoute"):
        route = validate(report, document, ModelRoute)
        if route is not None:
            consume_envelope(report, document, _OWN)
            shared += convert_route(report, document, route.spec, servers)
    convert_shared(shared)
    for server in servers.values():
        check_traffic_policy(server)
    _scaling(report, documents, servings)
    for each in servings:
        convert_gang(each)
    for document in of_kind(documents, "ModelBooster"):
        report.unsupported(
            "model-booster-unsupported", document.at(), _BOOSTER.format(name=document.name)
        )
    return report.finish()


def _scaling(
    report: ConversionReport, documents: Sequence[SourceDocument], servings: Sequence[Serving]
) -> None:
    policies: list[Policy] = []
    for document in of_kind(documents, "AutoscalingPolicy"):
        policy = validate(report, document, AutoscalingPolicy)
        if policy is not None:
            consume_envelope(report, document, _OWN)
            policies.append(Policy(document, policy.spec))
    bindings = []
    for document in of_kind(documents, "AutoscalingPolicyBinding"):
        binding = validate(report, document, AutoscalingPolicyBinding)
        if binding is not None:
            consume_envelope(report, document, _OWN)
            bindings.append((document, binding.spec))
    convert_policies(report, policies, bindings, servings)
