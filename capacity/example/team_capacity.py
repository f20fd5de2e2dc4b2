"""A capacity package that limits the GPUs per replica instead of estimating memory."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.plugins import capacity as core

GPU_BUDGET = core.Rule("gpu-budget-exceeded")


@dataclass(frozen=True)
class Budget:
    """What `plan` and `diff` show for a role."""

    gpus: int
    columns = ("GPUS PER REPLICA",)

    def row(self) -> tuple[str, ...]:
        return (str(self.gpus),)

    def to_json(self) -> dict[str, Any]:
        return {"gpus": self.gpus}

    def describe_change(self, new: Budget) -> str | None:
        return f"{self.gpus} -> {new.gpus} GPUs per replica" if new != self else None


class Capacity:
    """Implements the methods of `CapacityPackage` that this package supports."""

    def check(self, plan: Any, args: Any) -> tuple[dict[str, Budget], list[core.Finding]]:
        budgets, findings = {}, []
        for role in plan.roles:
            if args.roles[role.position].accelerator is None:
                continue
            budget = Budget(sum(role.pod_accelerators))
            budgets[role.name] = budget
            if budget.gpus > 16:
                location = ("roles", role.position)
                findings.append(
                    core.error(GPU_BUDGET, location, f"at most 16 GPUs, got {budget.gpus}")
                )
        return budgets, findings

    def size_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model")

    def size(self, options: argparse.Namespace) -> int:
        print(f"{options.model}: at most 16 GPUs")
        return 0


CAPACITY = Capacity()
