"""Deploys a catalogue of services to the clusters of an environment.

A stack is an environment: `Pulumi.<stack>.yaml` says which clusters run what, and how much.
"""

from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml
from policy import violations

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


def service(name: str, replicas: dict[str, int]) -> InferenceServiceArgs:
    """A service of the catalogue with the replicas that a cluster runs."""
    document = yaml.safe_load(Path(f"catalogue/{name}.yaml").read_text(encoding="utf-8"))
    roles = {role["name"]: role for role in document["spec"]["roles"]}
    for role, count in replicas.items():
        roles[role]["replicas"] = count
    (args,) = load(document)
    return args


def owned(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Labels every object with its team; pods are left alone, so nothing restarts."""
    if not args.custom:
        return None
    metadata: Any = args.props["metadata"]
    labels = {**(metadata.get("labels") or {}), "platform.example.com/team": team}
    props = {**args.props, "metadata": {**metadata, "labels": labels}}
    return pulumi.ResourceTransformResult(props, args.opts)


# Plan everything, and check it, before anything is registered.
wanted = {
    cluster["name"]: [service(name, counts) for name, counts in cluster["services"].items()]
    for cluster in clusters
}
plans = [plan for services in wanted.values() for plan in plan_services(services)]
refused = list(
    violations(plans, config.require_int("gpuBudget"), config.require_object("registries"))
)
if refused:
    raise pulumi.RunError("\n".join(f"policy: {each}" for each in refused))

endpoints: dict[str, dict[str, Any]] = {}
for cluster in clusters:
    name, services = cluster["name"], wanted[cluster["name"]]
    provider = kubernetes.Provider(name, context=cluster["context"])
    # Fails here with what to install, or says that the cluster could not be read.
    ServingPrerequisites(name, ServingPrerequisitesArgs(services, context=cluster["context"]))
    for args in services:
        options = pulumi.ResourceOptions(provider=provider, transforms=[owned])
        made = InferenceService(f"{name}-{args.name}", args, options)
        endpoints.setdefault(name, {})[str(args.name)] = made.endpoint
        pulumi.export(f"{name}-{args.name}", {"endpoint": made.endpoint, "status": made.status})
pulumi.export("endpoints", endpoints)
