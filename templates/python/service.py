"""The service, apart from Pulumi: the test plans it without a cluster."""

from fusioninfer_pulumi import InferenceServiceArgs, model_service


def service_args(model: str, accelerator: str, replicas: int) -> InferenceServiceArgs:
    """Replicas of a model; `fusioninfer-pulumi plan . --explain` says what they become."""
    return model_service(
        model,
        accelerator=accelerator,
        replicas=replicas,
    )
