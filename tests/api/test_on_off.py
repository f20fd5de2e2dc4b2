"""On and Off as YAML reads them: a boolean where nobody quotes them."""

from __future__ import annotations

import functools
from typing import Any

import jsonschema
import pytest
import yaml
from samples import problems, role, service

from fusioninfer_pulumi.api.schema import manifest_schema
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.cli.output import to_yaml
from fusioninfer_pulumi.loading import loads

ROUTER = {"name": "router", "componentType": "router"}


@functools.cache
def schema() -> Any:
    return jsonschema.Draft202012Validator(manifest_schema())


def ganged(mode: Any) -> dict[str, Any]:
    return service(schedulingStrategy={"gangPolicy": {"mode": mode}})


def measured(metrics: Any) -> dict[str, Any]:
    return service(role(), {**ROUTER, "endpointPicker": {"metrics": metrics}})


def written(manifest: dict[str, Any], word: str) -> InferenceServiceArgs:
    """A service read from YAML in which a word stands without quotes."""
    text = yaml.safe_dump(manifest)
    assert f"'{word}'" in text
    (args,) = loads(text.replace(f"'{word}'", word))
    return args


@pytest.mark.parametrize("word", ["On", "Off"])
def test_a_gang_is_switched_without_quotes(word: str) -> None:
    args = written(ganged(word), word)
    assert args.scheduling_strategy.gang_policy.mode.value == word


def test_metrics_are_off_without_quotes() -> None:
    picker = written(measured("Off"), "Off").roles[1].endpoint_picker
    assert picker is not None
    assert picker.metrics.value == "Off"


def test_a_boolean_without_a_word_is_refused() -> None:
    (told,) = problems(measured(True))
    assert told.endswith(".metrics: must be one of Off, Authenticated, Unauthenticated, got true")
    path = "schedulingStrategy.gangPolicy.mode"
    assert problems(ganged(0)) == [f"{path}: must be one of Auto, On, Off, got 0"]


@pytest.mark.parametrize(
    ("manifest", "accepted"),
    [
        (ganged("Off"), True),
        (ganged(False), True),
        (ganged(True), True),
        (ganged(0), False),
        (measured("Off"), True),
        (measured(False), True),
        (measured(True), False),
    ],
)
def test_the_schema_takes_what_we_take(manifest: dict[str, Any], accepted: bool) -> None:
    assert schema().is_valid(manifest) is accepted
    assert (not problems(manifest)) is accepted


def test_what_is_written_is_quoted() -> None:
    assert to_yaml([{"mode": "Off"}]) == "mode: 'Off'\n"
