"""KServe's scheduler: a configuration in a ConfigMap of the same input, and flags of its own."""

from __future__ import annotations

from typing import Any

import pytest
from importers.kserve_samples import Manifest, config, llm
from importers.reads import problems, said, spec, warned

TEXT = "plugins:\n- type: queue-scorer\n"


def config_map(name: str = "picker", metadata: Any = None, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})},
            "data": data}  # fmt: skip


def referring(**reference: Any) -> Manifest:
    given = {"name": "picker", **reference}
    return llm(router={"route": {}, "scheduler": {"config": {"ref": given}}})


def router(*documents: Manifest) -> Manifest:
    (found,) = (each for each in spec(*documents)["roles"] if each["componentType"] == "router")
    return dict(found)


@pytest.mark.parametrize(
    ("reference", "data"),
    [({}, {"epp": TEXT}), ({"key": "mine.yaml"}, {"mine.yaml": TEXT}),
     ({"key": "epp", "optional": False}, {"epp": TEXT})],
)  # fmt: skip
def test_a_config_map_of_the_input_is_read(reference: Manifest, data: dict[str, str]) -> None:
    made = router(referring(**reference), config_map(**data))
    assert made["endpointPickerConfig"] == TEXT
    assert "scorers" not in made


def test_a_config_may_refer_to_it_too() -> None:
    base = config("base", router={"scheduler": {"config": {"ref": {"name": "picker"}}}})
    document = llm(router={"route": {}, "scheduler": {}}, baseRefs=[{"name": "base"}])
    assert router(config_map(epp=TEXT), base, document)["endpointPickerConfig"] == TEXT


def test_shared_ones_are_looked_for_where_kserve_is_installed() -> None:
    shared = config_map("config-scheduler-x", metadata={"namespace": "kserve"}, epp=TEXT)
    document = referring(name="config-scheduler-x")
    assert router(document, shared)["endpointPickerConfig"] == TEXT
    own = config_map("config-scheduler-x", epp="plugins: []\n")
    assert router(document, shared, own)["endpointPickerConfig"] == "plugins: []\n"
    # A config of that namespace names one of the service's.
    base = config("base", router={"scheduler": {"config": {"ref": {"name": "picker"}}}})
    base["metadata"]["namespace"] = "kserve"
    document = llm(router={"route": {}, "scheduler": {}}, baseRefs=[{"name": "base"}])
    assert router(config_map(epp=TEXT), base, document)["endpointPickerConfig"] == TEXT


def test_what_nobody_names_in_it_is_told() -> None:
    labelled = config_map(metadata={"labels": {"a": "b"}}, epp=TEXT, other="x")
    told = [each for each in said(referring(), labelled) if each.startswith("f#2: info")]
    assert told == [
        f"f#2: info: {field}: is not what the scheduler's config.ref names; left out"
        for field in ("metadata.labels.a", "data.other")
    ]


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ([referring()],
         "f: router.scheduler.config.ref: cannot be carried over: the ConfigMap picker of "),
        ([referring(), config_map(metadata={"namespace": "other"}, epp=TEXT)],
         "f: router.scheduler.config.ref: cannot be carried over: the ConfigMap picker"),
        ([referring(), config_map(metadata={"namespace": "kserve"}, epp=TEXT)],
         "f: router.scheduler.config.ref: cannot be carried over: the ConfigMap picker"),
        ([referring(key="a"), config_map(epp=TEXT)],
         "f: router.scheduler.config.ref: the ConfigMap picker has no text by the key a"),
        # A ConfigMap that nobody names is an object like any other.
        ([referring(), config_map(epp=TEXT), config_map("else", epp=TEXT)], "f#3: apiVersion:"),
    ],
)  # fmt: skip
def test_a_config_map_that_is_not_there_is_asked_for(documents: list[Manifest], why: str) -> None:
    assert any(each.startswith(why) for each in problems(*documents)), problems(*documents)


def test_a_configuration_that_is_wrong_is_told_where_it_stands() -> None:
    wrong = config_map(epp="plugins: [")
    assert any(each.startswith("f#2: data.epp: ") for each in problems(referring(), wrong))


def test_flags_beside_the_presets_own_are_carried_over() -> None:
    def with_main(**main: Any) -> Manifest:
        template = {"containers": [{"name": "main", **main}]}
        return llm(router={"route": {}, "scheduler": {"template": template}})

    made = router(with_main(args=["--drain-timeout", "30s"]))
    assert made["endpointPicker"]["args"] == ["--drain-timeout", "30s"]
    assert any(
        each.startswith("f: router.scheduler.template.containers[0].args")
        for each in problems(with_main(args=["--pool-name", "mine"]))
    )
    (lost,) = [
        each for each in warned(with_main(command=["/app/epp"]), lossy=True) if "command" in each
    ]
    assert "cannot be carried over: the picker's own is used" in lost


def test_without_a_scheduler_there_is_a_picker_all_the_same() -> None:
    document = llm(router={"route": {}})
    made = router(document)
    assert list(made["endpointPicker"]) == ["image"]
    assert "scorers" not in made
    assert any(
        each.startswith(
            "f: info: router: no scheduler: a route of ours leads to an endpoint picker"
        )
        for each in said(document)
    )
