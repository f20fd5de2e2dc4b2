"""All checks of finished pods, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fusioninfer_pulumi.checks.pods.accelerators import (
    accelerator_findings,
    claim_and_limit_findings,
    claim_findings,
)
from fusioninfer_pulumi.checks.pods.commands import command_findings
from fusioninfer_pulumi.checks.pods.engine import (
    argument_findings,
    engine_findings,
    launcher_findings,
    release_findings,
)
from fusioninfer_pulumi.checks.pods.environment import reference_findings, role_credentials
from fusioninfer_pulumi.checks.pods.kv_transfer import (
    event_findings,
    sidecar_findings,
    transfer_findings,
)
from fusioninfer_pulumi.checks.pods.memory import disk_findings, memory_findings
from fusioninfer_pulumi.checks.pods.models import (
    model_findings,
    named_file_findings,
    served_findings,
)
from fusioninfer_pulumi.checks.pods.offloading import offloading_findings
from fusioninfer_pulumi.checks.pods.parallelism import parallelism_findings
from fusioninfer_pulumi.checks.pods.ports import port_findings
from fusioninfer_pulumi.checks.pods.prefill_decode import agreement_findings, pair_findings
from fusioninfer_pulumi.checks.pods.probes import probe_findings
from fusioninfer_pulumi.checks.pods.startup import startup_findings
from fusioninfer_pulumi.checks.pods.user_locations import pod_findings
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.pods.pod import Context, RolePods

#: Checks the finished pods of one role.
Check = Callable[[RolePods, Context], Iterable[Finding]]
#: Checks the finished pods of all roles of a service against each other.
ServiceCheck = Callable[[Sequence[tuple[Context, RolePods]]], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    port_findings,
    accelerator_findings,
    claim_and_limit_findings,
    parallelism_findings,
    offloading_findings,
    transfer_findings,
    event_findings,
    sidecar_findings,
    startup_findings,
    memory_findings,
    disk_findings,
    command_findings,
    model_findings,
    probe_findings,
    named_file_findings,
    reference_findings,
    release_findings,
    engine_findings,
    launcher_findings,
    role_credentials,
    pod_findings,
)
CHECKS_OF_ROLES: tuple[ServiceCheck, ...] = (
    argument_findings,
    agreement_findings,
    pair_findings,
    served_findings,
    claim_findings,
)


def role_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the finished pods of a role."""
    for check in CHECKS:
        yield from check(pods, ctx)


def roles_findings(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Checks the finished pods of all roles against each other."""
    for check in CHECKS_OF_ROLES:
        yield from check(roles)
