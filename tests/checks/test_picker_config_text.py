"""The text is read as Go reads it, and nothing ends in a traceback."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from picker_configs import base, said

from fusioninfer_pulumi.checks.picker_config.checks import check_config
from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily

KEYS = ("apiVersion", "kind", "plugins", "schedulingProfiles", "featureGates", "parser", "data")
REFERENCES = [{"pluginRef": "max-score-picker"}, {"pluginRef": "queue-scorer"}]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "is empty; leave endpointPickerConfig out to use a strategy"),
        ("# nothing\n", "is empty; leave endpointPickerConfig out to use a strategy"),
        ("hello", 'must be a mapping, got "hello"'),
        ("- a", 'must be a mapping, got ["a"]'),
        ("a: [", "not YAML: line 1, column 5"),
        ("kind: a\nkind: b", 'line 2, column 1: key "kind" already set in this map'),
        ("a: &x {b: *x}", "line 1, column 4: an alias refers to itself"),
        ("[a]: b", "line 1, column 1: a key must be a plain word"),
        ("\x00", "not YAML"),
        ("a: !!int x", "line 1, column 4: 'x' is no int"),
        ("[" * 100 + "]" * 100, "nested deeper than 60 levels"),
        ("[" * 5000, "nested deeper than 60 levels"),
        ("a" * (1024 * 1024 + 1), "larger than 1 MiB"),
        (
            "a: &a [" + "x," * 400 + "]\nb: &b [" + "*a," * 400 + "]\nc: [*b,*b]",
            "more than 100000 values with every alias written out",
        ),
    ],
)
def test_unreadable_text(written: str, message: str) -> None:
    [finding] = check_config(written, FAMILIES["gaie-1.2"])
    assert str(finding).startswith(message)


@pytest.mark.parametrize(
    "more", ["---\nfoo: bar\n", "---\n{{{", "---\n---\nfoo: bar\n", "--- hello\n"]
)
def test_only_the_first_document_is_read(more: str) -> None:
    assert said(base() + more, "gaie-1.2") == [("warning", "picker-config-doubtful", "")]
    assert said(base() + "---\n", "gaie-1.2") == []


@pytest.mark.parametrize(
    ("weight", "fine"),
    [("0x10", True), ("010", True), ("1_0", True), ("1e2", True), ("1:30", False), ("~", True)],
)
def test_numbers_are_read_as_go_reads_them(weight: str, fine: bool) -> None:
    written = base().replace("weight: 1", f"weight: {weight}")
    assert (said(written, "gaie-1.2") == []) is fine


def test_words_that_yaml_takes_for_dates_or_tags_are_names() -> None:
    written = base().replace("- type: queue-scorer", "- type: !x queue-scorer\n  name: 2020-01-01")
    written = written.replace("pluginRef: queue-scorer", "pluginRef: 2020-01-01")
    assert said(written, "gaie-1.2") == []


def test_unknown_fields_are_written_so_that_the_path_can_be_read() -> None:
    assert said(base(**{"a.b": 1}), "gaie-1.2") == [("error", "picker-config-invalid", "[a.b]")]
    plugin = {"type": "queue-scorer", "a b": 1}
    assert said(base(plugins=[plugin], schedulingProfiles=[{"name": "a"}]), "gaie-1.2") == [
        ("error", "picker-config-invalid", "plugins[0][a b]")
    ]


def test_merge_keys_are_followed() -> None:
    written = base().replace(
        "- type: queue-scorer", "- &a {type: queue-scorer}\n- {<<: *a, name: b}"
    )
    assert said(written, "gaie-1.2") == []


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "plugins",
                    "type",
                    "name",
                    "parameters",
                    "pluginRef",
                    "weight",
                    "deciders",
                    "prefill",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
families = st.sampled_from(list(FAMILIES.values()))


@given(written=st.text(), family=families)
@example("a: =\n", FAMILIES["gaie-1.2"])
@example("? a\n: b\n<<: 5\n", FAMILIES["gaie-1.2"])
@example("a: !!float x\n", FAMILIES["llm-d-0.10"])
@example("a: !!bool x\n", FAMILIES["llm-d-0.10"])
@example("a: 0b_\n", FAMILIES["llm-d-0.10"])
@example("a: .inf\nb: .nan\n", FAMILIES["llm-d-0.10"])
@example("&a a: 1\n*a : 2\n", FAMILIES["llm-d-0.10"])
@example("%YAML 3.0\n---\na\n", FAMILIES["llm-d-0.10"])
def test_no_text_ends_in_a_traceback(written: str, family: EppFamily) -> None:
    check_config(written, family)


@given(
    changes=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(KEYS, nested),
    ),
    family=families,
    own_image=st.booleans(),
)
def test_no_structure_ends_in_a_traceback(
    changes: dict[str, Any], family: EppFamily, own_image: bool
) -> None:
    check_config(base(**changes), family, own_image=own_image)


kinds = st.sampled_from(
    [
        "disagg-profile-handler",
        "pd-profile-handler",
        "single-profile-handler",
        "by-label",
        "prefix-based-pd-decider",
        "prefix-cache-scorer",
        "max-score-picker",
        "mine",
    ]
)


@given(
    entries=st.lists(
        st.fixed_dictionaries({"type": kinds}, optional={"name": nested, "parameters": nested}),
        max_size=5,
    ),
    family=families,
)
def test_no_plugin_ends_in_a_traceback(entries: list[dict[str, Any]], family: EppFamily) -> None:
    profiles = [{"name": name, "plugins": REFERENCES} for name in ("default", "decode")]
    check_config(base(plugins=entries, schedulingProfiles=profiles), family)
