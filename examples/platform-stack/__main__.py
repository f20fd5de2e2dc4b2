"""Deploy a catalogue of services to the clusters of an environment.

Each stack is an environment: `Pulumi.<stack>.yaml` lists its clusters, their services and replicas.
"""

from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml
from policy import find_violations

from fusioninfer_pulumi import (
    InferenceService,
    InferenceServiceArgs,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
    load,
    plan_services,
)

config = pulumi.Config()
team = config.require("team")
clusters = config.require_object("clusters")


def load_service(name: str, replicas: dict[str, int]) -> InferenceServiceArgs:
    """Load a service of the catalogue, and set the replicas that it has in one cluster."""
    document = yaml.safe_load(Path(f"catalogue/{name}.yaml").read_text(encoding="utf-8"))
    roles = {role["name"]: role for role in document["spec"]["roles"]}
    for role, count in replicas.items():
        roles[role]["replicas"] = count
    (args,) = load(document)
    return args


def add_team_label(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Label every object with its team. Pod templates do not change, so no pod restarts."""
    if not args.custom:
        return None
    metadata: Any = args.props["metadata"]
    labels = {**(metadata.get("labels") or {}), "platform.example.com/team": team}
    props = {**args.props, "metadata": {**metadata, "labels": labels}}
    return pulumi.ResourceTransformResult(props, args.opts)


# Plan and check all services before any resource is registered.
services_by_cluster = {
    cluster["name"]: [load_service(name, counts) for name, counts in cluster["services"].items()]
    for cluster in clusters
}
plans = [plan for services in services_by_cluster.values() for plan in plan_services(services)]
rejected = list(
    find_violations(plans, config.require_int("gpuBudget"), config.require_object("registries"))
)
if rejected:
    raise pulumi.RunError("\n".join(f"policy: {violation}" for violation in rejected))

endpoints: dict[str, dict[str, Any]] = {}
for cluster in clusters:
    name, services = cluster["name"], services_by_cluster[cluster["name"]]
    provider = kubernetes.Provider(name, context=cluster["context"])
    # Fails the preview if the cluster lacks a prerequisite, and warns if it cannot be read.
    ServingPrerequisites(name, ServingPrerequisitesArgs(services, context=cluster["context"]))
    for args in services:
        options = pulumi.ResourceOptions(provider=provider, transforms=[add_team_label])
        component = InferenceService(f"{name}-{args.name}", args, options)
        endpoints.setdefault(name, {})[str(args.name)] = component.endpoint
        pulumi.export(
            f"{name}-{args.name}", {"endpoint": component.endpoint, "status": component.status}
        )
pulumi.export("endpoints", endpoints)
