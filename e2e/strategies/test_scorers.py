"""Several scorers together: weights, and configurations that users write themselves."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from e2e import inputs
from e2e.routers import IMAGES, only
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Chooser, Fleet

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))
HOT = "Everybody asks this today: " * 10
ADVANCED = "router-example-2-custom-epp-config"


@pytest.mark.proves("scorers: a higher prefix-cache weight keeps a hot prefix despite a queue")
@VERSIONS
def test_heavy_prefix_weight_keeps_prefix_on_its_pod(fleet: Fleet, version: str) -> None:
    with fleet.picker(
        version, strategy="prefix-cache", scorers={"prefix-cache": 3, "queue": 2}
    ) as (picker):
        home = warmed(fleet, picker)
        fleet.load({home: Load(waiting=50)})
        fleet.wait_scraped()
        assert picker.picks(8, HOT) == {home: 8}, "3 x 1 + 2 x 0 against 3 x 0 + 2 x 1"
        assert home not in picker.picks(30), "new prompts avoid the queue"


@pytest.mark.proves("scorers: v1.5.0 accepts fractional weights")
def test_fractional_weights_count(fleet: Fleet) -> None:
    weights = {"prefix-cache": 0.5, "queue": 0.4, "kv-cache": 0.2}
    with fleet.picker("1.5", strategy="prefix-cache", scorers=weights) as picker:
        home = warmed(fleet, picker)
        fleet.load({home: Load(waiting=50)})
        fleet.wait_scraped()
        assert picker.picks(8, HOT) == {home: 8}, "0.5 + 0.2 against 0.4 + 0.2"
        fleet.load({home: Load(waiting=50, kv_cache=0.9)})
        fleet.wait_scraped()
        assert home not in picker.picks(8, HOT), "0.5 + 0.02 against 0.4 + 0.2"


@pytest.mark.proves("The router document's endpointPickerConfig (example 2) scores as described")
@VERSIONS
def test_configuration_of_document_is_used_verbatim(fleet: Fleet, version: str) -> None:
    text = _documents_configuration()
    objects = fleet.routing(version, endpointPickerConfig=text)
    assert list(only(objects, "ConfigMap")["data"].values()) == [text]
    with fleet.run(version, objects) as picker:
        home = warmed(fleet, picker)
        others = sorted(fleet.engines.keys() - {home})
        fleet.load({home: Load(kv_cache=0.9), others[1]: Load(kv_cache=0.2)})
        fleet.wait_scraped()
        assert picker.picks(8, HOT) == {home: 8}, "70 x 1 + 30 x 0.1 against 30 x 1"
        assert picker.picks(8) == {others[0]: 8}, "new prompts go to the emptiest pod"


def warmed(fleet: Fleet, picker: Chooser) -> str:
    fleet.wait_scraped()
    home = picker.warm(HOT)
    assert picker.picks(8, HOT) == {home: 8}
    return home


def _documents_configuration() -> str:
    (router,) = [
        role
        for role in _roles(inputs.DOCUMENTS[ADVANCED].read_text(encoding="utf-8"))
        if role["componentType"] == "router"
    ]
    return str(router["endpointPickerConfig"])


def _roles(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(text)["spec"]["roles"])
