"""Checks of the pods of the model's Job and of the endpoint picker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.checks.pods.environment import credential_findings, variable_findings
from fusioninfer_pulumi.checks.pods.template import Owner, template_findings
from fusioninfer_pulumi.checks.pods.user_locations import generated_label, written_location
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.kube.containers import overlaid
from fusioninfer_pulumi.pods.model_cache import ModelPlan, job_spec
from fusioninfer_pulumi.routing.epp import pod_template
from fusioninfer_pulumi.routing.router import Routing

#: Fields of a Job's pod by those that users write.
_JOB_FIELDS: Mapping[str, Location] = {
    "nodeSelector": ("model", "cache", "job", "nodeSelector"),
    "tolerations": ("model", "cache", "job", "tolerations"),
    "serviceAccountName": ("model", "cache", "job", "serviceAccountName"),
    "imagePullSecrets": ("model", "imagePullSecrets"),
    "containers": ("model", "fetcher"),
}


def model_findings(model: ModelArgs | None, plan: ModelPlan | None) -> Iterator[Finding]:
    """Checks the container that fetches a model, and the Job that fills its cache."""
    if model is None or plan is None:
        return
    yield from variable_findings(("model", "fetcher"), model.fetcher.env)
    if plan.warm_up is None:
        return
    for finding in template_findings(job_spec(plan.warm_up)["template"], Owner.JOB):
        field, rest = str(finding.location[1]), finding.location[2:]
        if field in _JOB_FIELDS:
            below = rest[1:] if field == "containers" else rest
            yield finding.at(*_JOB_FIELDS[field], *below)
        else:
            yield finding.at("model", "cache")


def picker_findings(routing: Routing | None) -> Iterator[Finding]:
    """Checks the pods of an endpoint picker; findings stand at what the user wrote of them."""
    if routing is None or routing.picker is None:
        return
    at: Location = (*routing.at, "endpointPicker")
    epp = routing.picker.epp
    written = epp.args.template or {}
    yield from credential_findings((*at, "template"), written)
    finished = overlaid(pod_template(epp), written)
    for finding in template_findings(finished, Owner.DEPLOYMENT):
        location = finding.location
        if generated_label(written, location):
            continue
        kept = written_location(finished, written, location)
        if len(kept) < len(location) and "resources" in location:
            yield finding.at(*at, *location[location.index("resources") :])
        else:
            yield finding.at(*at, "template", *kept)
