"""Deploy a large language model."""

import pulumi
from service import service_args

from fusioninfer_pulumi import InferenceService

config = pulumi.Config()
service = InferenceService(
    "llm",
    service_args(
        model=config.require("model"),
        accelerator=config.require("accelerator"),
        replicas=config.require_int("replicas"),
    ),
)

pulumi.export("endpoint", service.endpoint)
pulumi.export("status", service.status)
