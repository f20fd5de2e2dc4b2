"""A spec whose short fields are written out into its pod templates."""

from __future__ import annotations

from collections.abc import Collection

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.pods.device_claims import claiming_role
from fusioninfer_pulumi.pods.kv_offloading import offloading_role
from fusioninfer_pulumi.pods.model import ModelFiles, model_role
from fusioninfer_pulumi.pods.parallelism import parallel_role
from fusioninfer_pulumi.pods.rdma import rdma_role


def completed(
    service: str,
    args: InferenceServiceArgs,
    files: ModelFiles | None,
    leave_out: Collection[int] = (),
) -> tuple[InferenceServiceArgs, list[Finding]]:
    """Writes out what the short fields of a service stand for.

    Args:
        service: Name of the service.
        args: The spec.
        files: Where the files of its model lie, None without a model.
        leave_out: Indexes of roles that cannot be planned.

    Returns:
        The spec with complete pod templates, the same one where nothing was short, and what is to
        be said.
    """
    findings: list[Finding] = []
    roles = []
    for position, role in enumerate(args.roles):
        built = role
        if role.component_type is not ComponentType.ROUTER and position not in leave_out:
            if args.model is not None and files is not None:
                built, found = model_role(service, position, built, args.model, files)
                findings += found
            built, found = claiming_role(service, position, built)
            findings += found
            built, found = rdma_role(position, built)
            findings += found
            # After the model: workers without a command take their leader's words.
            built, found = parallel_role(position, built)
            findings += found
            # After the sizes: they say how many engines share a pod's memory.
            built, found = offloading_role(position, built)
            findings += found
        roles.append(built)
    if all(new is old for new, old in zip(roles, args.roles, strict=True)):
        return args, findings
    return args.model_copy(update={"roles": roles}), findings
