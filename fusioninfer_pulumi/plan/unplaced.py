"""Says that demands on node pools do nothing while nobody has chosen pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusioninfer_pulumi.findings import Finding, join, warning
from fusioninfer_pulumi.spec.service import InferenceServiceArgs

_MESSAGE = (
    "has no effect by itself: pools are chosen by `place` in a program, or by `--inventory` on the "
    "command line"
)


def without_unplaced(findings: Iterable[Finding]) -> list[Finding]:
    """Leaves those warnings out: somebody chooses pools, and says what became of each demand."""
    return [each for each in findings if _MESSAGE not in each.message]


def unplaced_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Yields a warning for each demand that was not carried out; `place` removes those that were.

    Args:
        args: The service.
    """
    if args.placement.colocate is not None:
        yield warning("placement.colocate", _MESSAGE)
    for index, role in enumerate(args.roles):
        if role.placement is not None:
            yield warning(join("roles", index, "placement"), _MESSAGE)
