"""What services cost: hours of GPUs, and money by a table of prices (`--prices`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.cli.plan_output import plain
from fusioninfer_pulumi.findings import shown
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.timeline import Timeline
from fusioninfer_pulumi.topology.role import RolePlan

#: Price of an accelerator that has none of its own.
DEFAULT = "default"
_HOURS = 24
_FORM = "{currency: EUR, gpuHour: {H100: 2.90, default: 2}}"


class PricesError(ValueError):
    """A table of prices cannot be used; the message says why, and what to do."""


@dataclass(frozen=True)
class Prices:
    """Prices of an hour of one GPU.

    Attributes:
        gpu_hour: Price by accelerator, in lower case.
    """

    currency: str
    gpu_hour: Mapping[str, Decimal]


@dataclass(frozen=True)
class Money:
    """An amount of money."""

    amount: Decimal
    currency: str

    @property
    def rounded(self) -> float:
        """The amount for JSON."""
        return float(round(self.amount, 2))

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"


@dataclass(frozen=True)
class Cost:
    """What the replicas of a service cost in a day."""

    gpus: int
    money: Money

    @property
    def hours(self) -> int:
        """Hours of GPUs in a day."""
        return self.gpus * _HOURS

    def __str__(self) -> str:
        return f"{self.hours:,} GPU-hours, {self.money}"

    def to_json(self) -> dict[str, Any]:
        """The cost in the keys of `plan --output json`."""
        return {
            "gpuHoursPerDay": self.hours,
            "amountPerDay": self.money.rounded,
            "currency": self.money.currency,
        }


def read_prices(path: str) -> Prices:
    """Reads a table of prices.

    Raises:
        PricesError: It cannot be read, or has another form.
    """
    try:
        written = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise PricesError(f"{path}: cannot be read: {str(problem).splitlines()[0]}") from problem
    table = written.get("gpuHour") if isinstance(written, Mapping) else None
    if not isinstance(table, Mapping) or not table or set(written) - {"currency", "gpuHour"}:
        raise PricesError(f"{path}: must look like {_FORM}")
    prices = {str(name).lower(): _price(path, name, value) for name, value in table.items()}
    return Prices(str(written.get("currency") or "USD"), prices)


def _price(path: str, name: Any, value: Any) -> Decimal:
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        price = Decimal(-1)
    if isinstance(value, bool) or not price.is_finite() or price < 0:
        raise PricesError(
            f"{path}: gpuHour.{name}: must be a price such as 2.90, got {shown(value)}"
        )
    return price


def cost(plan: ServicePlan, prices: Prices) -> Cost:
    """Returns what a service's replicas cost; autoscaled roles count those that they start with.

    Raises:
        PricesError: The table has no price for the accelerators of a role.
    """
    amount = Decimal(0)
    for role in plan.roles:
        if role.total_accelerators:
            amount += _gpu_hour(plan, role, prices) * role.total_accelerators * _HOURS
    return Cost(plan.total_accelerators, Money(amount, prices.currency))


def update_cost(
    update: Timeline, old: ServicePlan | None, new: ServicePlan, prices: Prices
) -> Money:
    """Returns what an update costs beyond the service before and after it, at most.

    Raises:
        PricesError: The table has no price for the accelerators of a role.
    """
    roles = {
        role.name: (plan, role) for plan in (old, new) if plan is not None for role in plan.roles
    }
    hours = {}
    for name in update.roles:
        if name in roles:
            hours[name] = _gpu_hour(*roles[name], prices)
        elif DEFAULT in prices.gpu_hour:  # rendered objects have no plan
            hours[name] = prices.gpu_hour[DEFAULT]
        else:
            raise PricesError(
                f"no price for role {name} of {new.service}: add {DEFAULT} to gpuHour"
            )
    return Money(update.extra_price(hours), prices.currency)


def _gpu_hour(plan: ServicePlan, role: RolePlan, prices: Prices) -> Decimal:
    named = list(_accelerators(role))
    for name in named:
        # `NVIDIA-H100-80GB-HBM3`, a node's label, is an H100.
        for key in (name.lower(), *re.split(r"[^a-z0-9]+", name.lower())):
            if key in prices.gpu_hour:
                return prices.gpu_hour[key]
    if DEFAULT in prices.gpu_hour:
        return prices.gpu_hour[DEFAULT]
    wanted = f"of {shown(named[0])}" if named else "(its accelerator is not known)"
    raise PricesError(
        f"no price for role {role.name} of {plan.service} {wanted}: add it to gpuHour, or a "
        f"price named {DEFAULT}"
    )


def _accelerators(role: RolePlan) -> Iterator[str]:
    if role.args.accelerator is not None:
        yield role.args.accelerator
    selector = role.leader_template["spec"].get("nodeSelector") or {}
    yield from (
        selector[key] for key in labels.ACCELERATOR_MODEL if isinstance(selector.get(key), str)
    )


def cost_notes(
    old: Iterable[ServicePlan] | None, new: Iterable[ServicePlan] | None, prices: Prices
) -> Iterator[str]:
    """Yields what a change does to the cost of each service."""
    before = {_key(plan): cost(plan, prices) for plan in old or ()}
    after = {_key(plan): cost(plan, prices) for plan in new or ()}
    if not before or not after:
        return  # rendered objects have no plan, and are not for nothing
    nothing = Cost(0, Money(Decimal(0), prices.currency))
    for key in dict.fromkeys([*before, *after]):
        was, will = before.get(key, nothing), after.get(key, nothing)
        if was != will:
            yield f"{'/'.join(key)}: a day costs {will} instead of {was}"


def _key(plan: ServicePlan) -> tuple[str, str]:
    return str(plain(plan.namespace)), plan.service
