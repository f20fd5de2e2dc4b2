"""The InferenceService component: plans a service and registers its objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.checks.update_checks import check_stack_layout_change, check_update
from fusioninfer_pulumi.component.children import Children
from fusioninfer_pulumi.component.cluster_access import get_program_services
from fusioninfer_pulumi.component.diagnosis import read_lws_failures
from fusioninfer_pulumi.component.endpoint_check import probe_endpoint
from fusioninfer_pulumi.component.kubernetes_objects import (
    TOKEN,
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    LiveObjects,
    PodGroup,
    combine,
    combine_live_objects,
    find_latest,
)
from fusioninfer_pulumi.component.pulumi_sdk import collected_services, make_unknown_output
from fusioninfer_pulumi.component.server_check import check_on_server
from fusioninfer_pulumi.component.stack_state import (
    OBSERVED,
    Observed,
    find_stack_lws,
    get_object_version,
    get_stack_state,
)
from fusioninfer_pulumi.component.status import ServiceStatus, compute_status
from fusioninfer_pulumi.findings import (
    Finding,
    Severity,
    drop_ignored,
    format_with_rule,
    parse_ignored_rules,
    raise_errors,
)
from fusioninfer_pulumi.loading.validate import validate_mapping
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import UpdateComparison, describe_mixed_revisions
from fusioninfer_pulumi.rollout.state_machine import ObjectVersion
from fusioninfer_pulumi.routing.endpoint import find_endpoint
from fusioninfer_pulumi.routing.pool import build_service_reference
from fusioninfer_pulumi.rules.catalog import check_ignored_rules

if TYPE_CHECKING:
    from fusioninfer_pulumi.generated.dicts import InferenceServiceArgsDict


class InferenceService(pulumi.ComponentResource):
    """A large language model served on Kubernetes.

    Creates PodGroups if the service is gang-scheduled, one LeaderWorkerSet per replica or role, and
    the objects that route requests to their pods. These are a Service, or if the service has a
    router role, an endpoint picker, an InferencePool, an HTTPRoute and optionally a Gateway.
    """

    name: pulumi.Output[str]
    """Kubernetes name of the service."""

    namespace: pulumi.Output[str]
    """Namespace of its objects."""

    endpoint: pulumi.Output[str]
    """URL at which clients reach the model: with a route, through its Gateway (empty while the
    address is unknown); otherwise the Service."""

    status: pulumi.Output[ServiceStatus]
    """Conditions and status of the roles, as of the last update or refresh."""

    plan: ServicePlan
    """Pods, accelerators, gangs, names and findings. A value is an Output only if it was an Output
    in `args`."""

    leader_worker_sets: dict[str, LeaderWorkerSet]
    """The LeaderWorkerSets by Kubernetes name: one per replica, or one per role."""

    pod_group: PodGroup | None
    """The gang's PodGroup. None if there is no gang, or if the service has groups (see
    `pod_groups`)."""

    pod_groups: dict[str, PodGroup]
    """All PodGroups by Kubernetes name: the gang's, or one per serving group."""

    service: KubernetesObject | None
    """The Service of the serving pods, or None if the service has an endpoint picker."""

    inference_pool: InferencePool | None
    """The InferencePool, or None if the service has no endpoint picker."""

    http_route: HTTPRoute | None
    """The route to the pool or Service, or None if the service creates none."""

    gateway: Gateway | None
    """The Gateway that the service creates, or None if it creates none."""

    def __init__(
        self,
        name: str,
        args: InferenceServiceArgs | InferenceServiceArgsDict,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register the service and its objects.

        Args:
            name: Logical name; also the Kubernetes name if `args` has none.
            args: The spec, or a mapping with its fields (snake_case or camelCase).
            opts: Resource options; provider, aliases, transforms, protect, depends_on and
                retain_on_delete also apply to the objects.

        Raises:
            InvalidServiceError: The service is invalid; nothing has been registered.
        """
        self.plan = _validate_and_plan(name, args)
        manifests = render(self.plan)
        # Collisions with the services that the program has created before.
        collisions = get_program_services(opts).add_and_check(self.plan)
        raise_errors(collisions, name)
        self.plan = replace(self.plan, findings=(*self.plan.findings, *collisions))
        raise_errors(check_stack_layout_change(name, self.plan, get_stack_state().lws), name)
        stack_lws = find_stack_lws(name, self.plan)
        raise_errors(check_update(self.plan, manifests, stack_lws), name)
        super().__init__(TOKEN, name, build_recorded_inputs(self.plan), opts)
        collected = collected_services.get()
        if collected is not None:
            # The command line runs the program, and reports the findings itself.
            collected.append((name, self.plan))
        else:
            ignored = parse_ignored_rules(self.plan.meta.annotations)
            findings = [*self.plan.findings, *check_ignored_rules(ignored)]
            log_warnings(drop_ignored(findings, ignored), self)
            if pulumi.runtime.is_dry_run():
                old_engines = [lws.engine for lws in (stack_lws or {}).values() if lws.engine]
                comparison = UpdateComparison(old_engines, manifests, self.plan)
                for line in describe_mixed_revisions(comparison):
                    pulumi.log.warn(line, self)
        # Pulumi passes `provider` and other options to children, but not `depends_on` and
        # `retain_on_delete`.
        child_options = pulumi.ResourceOptions(
            parent=self,
            depends_on=opts.depends_on if opts else None,
            retain_on_delete=opts.retain_on_delete if opts else None,
        )
        self._children = Children(self, name, self.plan, manifests, stack_lws, child_options)
        self._set_object_attributes()
        self.name = pulumi.Output.from_input(self.plan.service)
        self.namespace = pulumi.Output.from_input(self.plan.namespace)
        observed_objects = self._children.observed_objects
        self.endpoint = self._compute_endpoint(observed_objects)
        versions = {lws_name: lws.version for lws_name, lws in (stack_lws or {}).items()}
        self.status = self._compute_status(observed_objects, versions)
        probe_endpoint(self, self.plan, self.endpoint, self._children.get_deadline)
        check_on_server(self, self.plan, self._children.is_render_only, log_warnings)
        record = self._children.observed.apply(Observed.build_output)
        self.register_outputs(
            {
                "name": self.name,
                "namespace": self.namespace,
                "endpoint": self.endpoint,
                "status": self.status,
                # `up --plan` rejects outputs that differ from known outputs of the preview.
                OBSERVED: make_unknown_output() if pulumi.runtime.is_dry_run() else record,
            }
        )

    def object_names(self, kind: str) -> list[str]:
        """Return the Kubernetes names of the service's objects of a kind, such as `HTTPRoute`."""
        return list(self._children.find_by_kind(kind))

    def _set_object_attributes(self) -> None:
        children = self._children
        self.leader_worker_sets = children.find_by_type(LeaderWorkerSet)
        self.pod_groups = children.find_by_type(PodGroup)
        has_groups = self.plan.shape.groups is not None
        self.pod_group = None if has_groups else self.pod_groups.get(self.plan.service)
        self.inference_pool = next(iter(children.find_by_type(InferencePool).values()), None)
        self.http_route = next(iter(children.find_by_type(HTTPRoute).values()), None)
        self.gateway = next(iter(children.find_by_type(Gateway).values()), None)
        services = children.find_by_kind("Service").values()
        self.service = next(iter(services)) if self.plan.picker is None else None

    def _compute_endpoint(self, observed_objects: pulumi.Output[LiveObjects]) -> pulumi.Output[str]:
        plan, routing = self.plan, self.plan.routing
        if routing is None or plan.clients_use_service:
            target = build_service_reference(plan.service, plan.roles, plan.shape)
            host, port = target["name"], target["port"]
            url = pulumi.Output.format("http://{0}.{1}.svc:{2}", host, plan.namespace, port)
            # Known only when the update has ended.
            return observed_objects.apply(lambda _: url)
        endpoint_plan = find_endpoint(routing)
        if endpoint_plan is not None and endpoint_plan.host is not None:
            host_url = pulumi.Output.from_input(endpoint_plan.host).apply(endpoint_plan.format_url)
            return observed_objects.apply(lambda _: host_url)
        if endpoint_plan is None or self.gateway is None:
            return pulumi.Output.from_input("")

        def format_gateway_url(values: list[LiveObjects]) -> str:
            gateways, observed = values
            (name,) = gateways
            # The Gateway may have received its address while the update waited.
            live_gateway = find_latest(gateways[name], observed.get(name)) or {}
            return endpoint_plan.format_gateway_url(live_gateway.get("status"))

        gateways = combine_live_objects(self._children.find_by_kind("Gateway"))
        return combine([gateways, observed_objects], list).apply(format_gateway_url)

    def _compute_status(
        self, observed_objects: pulumi.Output[LiveObjects], versions: Mapping[str, ObjectVersion]
    ) -> pulumi.Output[ServiceStatus]:
        """Return the status; unknown in a preview that changes any LeaderWorkerSet.

        `versions` are the UIDs and generations of the LeaderWorkerSets in the stack's state.
        """
        plan = self.plan
        # Names are unique among these kinds.
        objects = {
            name: resource
            for kind in (LeaderWorkerSet, PodGroup, Gateway, InferencePool, HTTPRoute)
            for name, resource in self._children.find_by_kind(kind.__name__).items()
        }

        async def compute(registered: LiveObjects, observed: LiveObjects) -> ServiceStatus:
            live = {
                name: find_latest(state, observed.get(name)) for name, state in registered.items()
            }
            lws = {name: live[name] for name in self.leader_worker_sets}
            is_render_only = bool(await self._children.is_render_only.future())
            failures = await read_lws_failures(self, plan, lws, is_render_only=is_render_only)
            return compute_status(plan, live, failures)

        def compute_if_known(values: list[LiveObjects]) -> Any:
            registered, observed = values
            if pulumi.runtime.is_dry_run() and any(
                get_object_version(registered[name]["metadata"]) != version
                for name, version in versions.items()
            ):
                return make_unknown_output()
            return compute(registered, observed)  # `apply` awaits it

        return combine([combine_live_objects(objects), observed_objects], list).apply(
            compute_if_known
        )


def build_recorded_inputs(plan: ServicePlan) -> dict[str, Any]:
    """Return the component's inputs in the stack's state, which policy packs and previews read.

    The inputs are the fields that the user set, by their YAML names, and the resulting name,
    namespace, replicas and GPUs. A service with these fields has the same objects.
    """
    args = plan.provenance.spec
    # Pydantic would warn about Outputs.
    inputs = args.model_dump(by_alias=True, exclude_unset=True, warnings=False)
    inputs |= {"name": plan.service, "namespace": plan.namespace}
    for role in plan.roles:
        fields = inputs["roles"][role.position]
        fields["replicas"] = args.roles[role.position].replicas
        if role.accelerators_per_pod and role.position in plan.provenance.generated_roles:
            fields["gpus"] = role.accelerators_per_pod
    return inputs


def log_warnings(findings: Iterable[Finding], component: pulumi.Resource) -> None:
    """Log the warnings among findings, and the infos with `--debug`."""
    for finding in findings:
        # Pulumi prints the severity.
        text = format_with_rule(finding).removeprefix(f"{finding.severity.value}: ")
        if finding.severity is Severity.WARNING:
            pulumi.log.warn(text, component)
        elif finding.severity is Severity.INFO:
            pulumi.log.debug(text, component)


def _validate_and_plan(name: str, args: InferenceServiceArgs | Mapping[str, Any]) -> ServicePlan:
    if isinstance(args, InferenceServiceArgs):
        plan = plan_service(args, name)
        raise_errors(plan.findings, name)
        return plan
    if not isinstance(args, Mapping):
        raise TypeError(
            f"{name}: args must be InferenceServiceArgs or a mapping with its fields, "
            f"got {type(args).__name__}"
        )
    validated, findings = validate_mapping(args, name)
    raise_errors(findings, name)
    assert validated is not None, "a mapping without errors has args"
    return _validate_and_plan(name, validated)
