"""Profile handlers and their deciders."""

from collections.abc import Callable
from typing import Any

import pytest

Said = Callable[..., list[tuple[str, str]]]

ALWAYS = {"type": "always-disagg-pd-decider"}
HEADERS = {"type": "disagg-headers-handler"}
NAMED = {"deciders": {"prefill": "always-disagg-pd-decider"}}
WHERE = "plugins[2].parameters"


def handler(parameters: dict[str, Any], kind: str = "disagg-profile-handler") -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def both(*declared: Any, names: tuple[str, ...] = ("prefill", "decode")) -> dict[str, Any]:
    references = [{"pluginRef": "queue-scorer", "weight": 1}]
    return {
        "apiVersion": "absent",
        "plugins": [{"type": "queue-scorer"}, *declared],
        "schedulingProfiles": [{"name": name, "plugins": references} for name in names],
    }


@pytest.mark.parametrize(
    ("family", "config", "want"),
    [
        ("llm-d-0.10", both(ALWAYS, handler(NAMED)), []),
        ("llm-d-0.10", both(handler(NAMED), ALWAYS), []),
        (
            "llm-d-0.9",
            both(handler(NAMED), ALWAYS),
            [("error", "plugins[1].parameters.deciders.prefill")],
        ),
        ("llm-d-0.8", both(ALWAYS, handler(NAMED)), [("warning", "plugins")]),
        ("llm-d-0.8", both(ALWAYS, handler(NAMED), HEADERS), []),
        ("llm-d-0.10", both(ALWAYS, handler({})), [("warning", f"{WHERE}.deciders.prefill")]),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({"deciders": {"prefill": "nope"}})),
            [("error", f"{WHERE}.deciders.prefill")],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({"deciders": {"prefill": "queue-scorer"}})),
            [("error", f"{WHERE}.deciders.prefill")],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({"prefillDeciderPluginName": "always-disagg-pd-decider"})),
            [],
        ),
        (
            "llm-d-0.10",
            both(ALWAYS, handler({**NAMED, "decodeProfile": "decode"})),
            [("error", WHERE)],
        ),
        ("llm-d-0.10", both(ALWAYS, handler(NAMED), names=("prefill", "d")), [("error", WHERE)]),
        ("llm-d-0.10", both(ALWAYS, handler(NAMED), names=("p", "decode")), [("warning", WHERE)]),
        (
            "llm-d-0.10",
            both(
                ALWAYS,
                handler({**NAMED, "profiles": {"prefill": "p", "decode": "d"}}),
                names=("p", "d"),
            ),
            [],
        ),
        (
            "llm-d-0.7",
            both(
                HEADERS,
                {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": 4}},
                handler({"deciders": {"prefill": "prefix-based-pd-decider"}}),
            ),
            [("warning", "plugins[3].parameters")],
        ),
        (
            "llm-d-0.8",
            both(
                HEADERS,
                ALWAYS,
                handler(
                    {"deciderPluginName": "always-disagg-pd-decider", "primaryPort": 8000},
                    "pd-profile-handler",
                ),
            ),
            [("warning", "plugins[3].parameters.primaryPort")],
        ),
        (
            None,
            both(ALWAYS, handler({"deciders": {"prefill": "nope"}})),
            [("error", f"{WHERE}.deciders.prefill")],
        ),
    ],
)
def test_handlers(
    family: str | None,
    config: dict[str, Any],
    want: list[tuple[str, str]],
    base: Callable[..., str],
    said: Said,
) -> None:
    assert said(base(**config), family) == want
