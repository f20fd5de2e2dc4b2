"""Pass the endpoint that the platform's stack exports to an application."""

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

config = pulumi.Config()
cluster, model = config.require("cluster"), config.require("model")
platform = pulumi.StackReference(config.require("platform"))
# Run `pulumi up` in this stack when the endpoint changes.
endpoint = platform.require_output("endpoints").apply(lambda endpoints: endpoints[cluster][model])

ConfigMap(
    "model",
    metadata={"name": "model", "namespace": "default"},
    data={"OPENAI_BASE_URL": endpoint.apply(lambda url: f"{url}/v1")},
)
pulumi.export("endpoint", endpoint)
