"""KServe's kvCacheOffloading, which our field takes word for word."""

from __future__ import annotations

from typing import Any

import pytest
from importers.kserve_samples import config, llm, pod
from importers.reads import problems, said, spec

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}}
TIERS = [
    {"fileSystem": {"emptyDir": {"size": "100Gi"}}},
    {"fileSystem": {"pvc": {"spec": CLAIM}}},
    {"fileSystem": {"pvc": {"ref": {"name": "shared", "path": "kv"}}}},
]
FULL = {"cpu": "10Gi", "evictionPolicy": "arc", "secondary": TIERS}


def test_every_tier_is_carried_over() -> None:
    document = llm(kvCacheOffloading=FULL)
    (role,) = spec(document)["roles"]
    assert role["kvCacheOffloading"] == FULL


def test_each_workload_has_its_own() -> None:
    document = llm(kvCacheOffloading={"cpu": "1Gi"}, prefill={"template": pod(),
                   "kvCacheOffloading": {"cpu": "2Gi"}})  # fmt: skip
    # Without a connector between the two this is refused, for that reason alone.
    assert not [each for each in problems(document) if "kvCacheOffloading" in each]
    with_router = llm(kvCacheOffloading={"cpu": "1Gi"}, router={"scheduler": {}, "route": {}})
    made = {role["name"]: role.get("kvCacheOffloading") for role in spec(with_router)["roles"]}
    assert made == {"main": {"cpu": "1Gi"}, "router": None}


def test_quantities_may_be_numbers() -> None:
    disk = {"fileSystem": {"emptyDir": {"size": 2048}}}
    document = llm(kvCacheOffloading={"cpu": 1073741824, "secondary": [disk]})
    (role,) = spec(document)["roles"]
    assert role["kvCacheOffloading"] == {
        "cpu": "1073741824", "secondary": [{"fileSystem": {"emptyDir": {"size": "2048"}}}],
    }  # fmt: skip


def test_a_config_says_it_as_well() -> None:
    base = config("base", kvCacheOffloading={"cpu": "1Gi", "secondary": TIERS})
    document = llm(kvCacheOffloading={"cpu": "2Gi"}, baseRefs=[{"name": "base"}])
    (role,) = spec(base, document)["roles"]
    assert role["kvCacheOffloading"] == {"cpu": "2Gi", "secondary": TIERS}


def test_a_command_of_its_own_is_told_too() -> None:
    document = llm(kvCacheOffloading={"cpu": "1Gi"}, template=pod(command=["vllm", "serve", "m"]),
                   model={"uri": "hf://m/m"})  # fmt: skip
    text = "f: info: kvCacheOffloading: KServe tells only its presets' command about it"
    assert any(each.startswith(text) for each in said(document))
    assert not any(each.startswith(text) for each in said(llm(kvCacheOffloading={"cpu": "1Gi"})))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        # KServe's script leaves its own setting out beside one in the arguments, in silence.
        ({"template": pod(args=["--kv-transfer-config", '\'{"kv_connector":"X"}\''])},
         "f: kvCacheOffloading: the engine's arguments hold --kv-transfer-config (X) already"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "secondary": [{}]}},
         "f: kvCacheOffloading.secondary[0]: needs either emptyDir"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "secondary": [{"fileSystem": {"pvc": {}}}]}},
         "f: kvCacheOffloading.secondary[0].fileSystem.pvc: needs either spec"),
        ({"kvCacheOffloading": {"secondary": TIERS}}, "f: kvCacheOffloading.cpu: is required"),
        ({"kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "fifo"}},
         "f: kvCacheOffloading.evictionPolicy: must be one of lru, arc"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(more: Any, text: str) -> None:
    found = problems(llm(**{"kvCacheOffloading": {"cpu": "1Gi"}, **more}))
    assert any(each.startswith(text) for each in found), found
