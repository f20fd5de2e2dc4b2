"""Qwen3-8B on two GPUs behind a router, described by the manifest next to this program."""

import pulumi

from fusioninfer_pulumi import InferenceService, load

for args in load("inference-service.yaml"):
    service = InferenceService(str(args.name), args)
    pulumi.export("endpoint", service.endpoint)
    pulumi.export("status", service.status)
