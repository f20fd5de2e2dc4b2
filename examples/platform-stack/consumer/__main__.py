"""Hands an application the endpoint that the platform's stack exports."""

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

config = pulumi.Config()
cluster, model = config.require("cluster"), config.require("model")
platform = pulumi.StackReference(config.require("platform"))
# The endpoint changes when the platform's does: at this stack's next update.
endpoint = platform.require_output("endpoints").apply(lambda known: known[cluster][model])

ConfigMap(
    "model",
    metadata={"name": "model", "namespace": "default"},
    data={"OPENAI_BASE_URL": endpoint.apply(lambda url: f"{url}/v1")},
)
pulumi.export("endpoint", endpoint)
