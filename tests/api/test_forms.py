"""Strings of a certain form: what they must be is told in words that fit."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from samples import Manifest, problems, role, service

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import format_description as words_of
from fusioninfer_pulumi.api.monitoring import Interval
from fusioninfer_pulumi.api.rollout import Duration
from fusioninfer_pulumi.api.types import CountOrAnyPercentage, CountOrPercentage
from fusioninfer_pulumi.importers import IMPORTERS
from fusioninfer_pulumi.importers.model import ImportedModel


def models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in base.__subclasses__():
        yield each
        yield from models(each)


#: Types with a validator of their own, which says itself what is allowed.
TELL_THEMSELVES = (Duration, CountOrPercentage, CountOrAnyPercentage, Interval)


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            yield from patterns(each)


def test_every_form_has_words() -> None:
    for importer in IMPORTERS:
        importlib.import_module(f"fusioninfer_pulumi.importers.{importer.module}")
    every = [*models(SpecModel), *models(ImportedModel)]
    found = {each for model in every for each in patterns(model.model_json_schema())}
    for told in TELL_THEMSELVES:
        found -= set(patterns(TypeAdapter(told).json_schema()))
    assert len(found) > 10
    assert all(map(words_of, found))


TOLD: dict[str, tuple[Manifest, str]] = {
    "an address without a scheme": (
        service(role(), tracing={"endpoint": "otel:4317"}),
        (
            "tracing.endpoint: must be an address such as "
            'http://otel-collector.observability:4317, without a path, got "otel:4317"'
        ),
    ),
    "a relative path": (
        service(role(), monitoring={"path": "metrics"}),
        'monitoring.path: must be a path that starts with /, got "metrics"',
    ),
    "a relative folder": (
        service(role(), model={"source": "hf://a/b", "mountPath": "models"}),
        (
            "model.mountPath: must be a path such as /models/chat, of A-Z a-z 0-9 _ . - and /, got "
            '"models"'
        ),
    ),
    "an endpoint without a port": (
        service(role(kvEvents={"endpoint": "tcp://epp"})),
        (
            "roles[0].kvEvents.endpoint: must be a ZMQ endpoint such as "
            'tcp://*:5557, with its port, got "tcp://epp"'
        ),
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_a_string_must_be_is_told(case: str) -> None:
    manifest, wanted = TOLD[case]
    assert wanted in problems(manifest)
