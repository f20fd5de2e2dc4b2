"""The entry point of the importer of Kthena's documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, filter_kind
from fusioninfer_importers.kthena.deployments import (
    KIND as DEPLOYMENT,
    convert_deployment,
    is_selected,
)
from fusioninfer_importers.kthena.models import (
    AutoscalingPolicy,
    AutoscalingPolicyBinding,
    BindingSpec,
    Deployment,
    ModelRoute,
    ModelServer,
    ModelServing,
)
from fusioninfer_importers.kthena.routes import SharedTarget, convert_route, set_routed_by
from fusioninfer_importers.kthena.scaling import Policy, convert_policies
from fusioninfer_importers.kthena.servers import Server, check_traffic_policy, convert_server
from fusioninfer_importers.kthena.serving import Serving, convert_gang, convert_serving
from fusioninfer_importers.model import validate_kind
from fusioninfer_importers.objects import consume_envelope
from fusioninfer_pulumi.plugins.importers import Conversion, SourceDocument

#: Prefix of labels that Kthena's controllers set (pkg/model-booster-controller/utils).
_LABEL_PREFIX = "workload.serving.volcano.sh/"
_BOOSTER_UNSUPPORTED = (
    "Kthena's controller creates a ModelServing, a ModelServer and a ModelRoute from a "
    "ModelBooster, with Kthena's own programs in the pods; import these from the cluster: "
    "kubectl get "
    "modelservings.workload.serving.volcano.sh,modelservers.networking.serving.volcano.sh,"
    "modelroutes.networking.serving.volcano.sh "
    "-l workload.serving.volcano.sh/model-name={name} -o yaml"
)


def find_referenced(
    documents: Sequence[SourceDocument], others: Sequence[SourceDocument]
) -> list[SourceDocument]:
    """Return the Deployments whose pods a ModelServer selects."""
    return [other for other in others if is_selected(other, documents)]


def convert(documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
    """Convert Kthena's documents: one service for each ModelServing and Deployment.

    A ModelServer adds a router, a ModelRoute its rules, an AutoscalingPolicy autoscaling of roles.
    """
    report = ConversionReport(documents, allow_lossy=allow_lossy)
    servings: list[Serving] = []
    for document, model in validate_kind(report, documents, "ModelServing", ModelServing):
        builder = report.add_service(document)
        convert_serving(builder, model)
        servings.append(Serving(model, builder))
    workloads = list(servings)
    for document, deployment in validate_kind(report, documents, DEPLOYMENT, Deployment):
        workloads.append(convert_deployment(report, document, deployment))
    servers: dict[tuple[Any, Any], Server] = {}
    for document, model_server in validate_kind(report, documents, "ModelServer", ModelServer):
        consume_envelope(report, document, _LABEL_PREFIX)
        server = convert_server(report, document, model_server.spec, workloads)
        if server is not None:
            servers[document.namespace, document.name] = server
    shared: list[SharedTarget] = []
    for document, route in validate_kind(report, documents, "ModelRoute", ModelRoute):
        consume_envelope(report, document, _LABEL_PREFIX)
        shared += convert_route(report, document, route.spec, servers)
    set_routed_by(shared)
    for server in servers.values():
        check_traffic_policy(server)
    policies: list[Policy] = []
    for document, policy in validate_kind(
        report, documents, "AutoscalingPolicy", AutoscalingPolicy
    ):
        consume_envelope(report, document, _LABEL_PREFIX)
        policies.append(Policy(document, policy.spec))
    bindings: list[tuple[SourceDocument, BindingSpec]] = []
    kind = "AutoscalingPolicyBinding"
    for document, binding in validate_kind(report, documents, kind, AutoscalingPolicyBinding):
        consume_envelope(report, document, _LABEL_PREFIX)
        bindings.append((document, binding.spec))
    convert_policies(report, policies, bindings, servings)
    for serving in servings:
        convert_gang(serving)
    for document in filter_kind(documents, "ExternalModelProvider"):
        consume_envelope(report, document)
        report.unsupported(
            document.at("spec"),
            "is a model API outside of the cluster that Kthena's router forwards requests to, "
            "which is not supported; register it as a backend of an AI gateway, such as Envoy AI "
            "Gateway's AIServiceBackend",
        )
    for document in filter_kind(documents, "ModelBooster"):
        report.unsupported(document.at(), _BOOSTER_UNSUPPORTED.format(name=document.name))
    return report.finish()
