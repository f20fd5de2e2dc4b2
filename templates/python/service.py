"""The service; the test plans it without Pulumi and without a cluster."""

from fusioninfer_pulumi import InferenceServiceArgs, model_service


def service_args(model: str, accelerator: str, replicas: int) -> InferenceServiceArgs:
    """Return the service; `fusioninfer-pulumi plan . --explain` shows the generated values."""
    return model_service(
        model,
        accelerator=accelerator,
        replicas=replicas,
        edition="2026.11",
    )
