"""Properties of the difference of any two lists of manifests."""

from __future__ import annotations

import copy
import json
from typing import Any

from cli.printed import to_text
from hypothesis import given, strategies as st
from profiles import examples

from fusioninfer_pulumi.cli.diff import Difference, compare, to_json, to_markdown
from fusioninfer_pulumi.cli.diff.manifests import is_equal, to_plain

SWAPPED = {"added": "removed", "removed": "added", "changed": "changed", "replaced": "replaced"}

NAMES = st.sampled_from(["a-0", "a-1", "b", "", "x.y/z"])
KEYS = st.one_of(
    st.sampled_from(["name", "spec", "env", "containers", "image", "size", "a.b/c", "__x", ""]),
    st.text(max_size=3),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["<secret>", "<unknown>", "a\nb\nc", "```\n", "|<b>*", "\x1b[31m", "8"]),
    st.dates(),
)
ANY_VALUE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.one_of(st.integers(0, 2), st.booleans(), st.none()), inner, max_size=2),
        st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"value": inner}), max_size=4),
    ),
    max_leaves=12,
)
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": ANY_VALUE, "annotations": ANY_VALUE}
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": ANY_VALUE, "schedulerName": ANY_VALUE}
        ),
    },
)
LWS_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.one_of(st.integers(0, 4), ANY_VALUE),
        "networkConfig": ANY_VALUE,
        "minMember": ANY_VALUE,
        "minTaskMember": ANY_VALUE,
        "template": TEMPLATES,
        "leaderWorkerTemplate": st.one_of(
            ANY_VALUE,
            st.fixed_dictionaries(
                {},
                optional={
                    "size": st.one_of(st.integers(0, 4), ANY_VALUE),
                    "leaderTemplate": TEMPLATES,
                    "workerTemplate": st.one_of(TEMPLATES, ANY_VALUE),
                    "subGroupPolicy": ANY_VALUE,
                    "volumeClaimTemplates": ANY_VALUE,
                },
            ),
        ),
    },
)
LABELS = st.dictionaries(
    st.sampled_from(
        [f"fusioninfer.io/{key}" for key in ("service", "role-name", "replica-index", "revision")]
    ),
    st.one_of(NAMES, st.sampled_from(["0", "1"])),
)
MANIFESTS = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.sampled_from(
            ["leaderworkerset.x-k8s.io/v1", "scheduling.volcano.sh/v1beta1", "apps/v1", "v1", 1]
        ),
        "kind": st.sampled_from(["LeaderWorkerSet", "PodGroup", "Deployment", "List", "Pod", None]),
        "metadata": st.one_of(
            ANY_VALUE,
            st.fixed_dictionaries(
                {"name": NAMES},
                optional={"namespace": NAMES, "labels": st.one_of(LABELS, ANY_VALUE)},
            ),
        ),
        "spec": st.one_of(ANY_VALUE, LWS_SPECS),
        "items": ANY_VALUE,
    },
)
LISTS = st.lists(MANIFESTS, max_size=5)


def check_formats(difference: Difference) -> None:
    """Check that every output format can represent a difference."""
    for color in (True, False):
        text = to_text(difference, color=color)
        assert text.endswith("\n")
        assert color or "\x1b" not in text
    markdown = to_markdown(difference, limit=3_000)
    assert len(markdown) <= 3_000
    assert "\x1b" not in markdown
    assert json.loads(json.dumps(to_json(difference), allow_nan=False)) == to_json(difference)


@given(LISTS)
def test_list_does_not_differ_from_itself(manifests: list[dict[str, Any]]) -> None:
    assert not compare(manifests, manifests)
    assert compare(manifests, copy.deepcopy(manifests)) == Difference()


@given(LISTS, LISTS)
def test_any_two_lists_can_be_compared_and_swapped(
    old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    there, back = compare(old, new), compare(new, old)
    check_formats(there)

    def objects(difference: Difference) -> set[tuple[str, ...]]:
        return {(c.kind, c.namespace, c.name, c.action) for c in difference.objects}

    swapped = {(kind, space, name, SWAPPED[action]) for kind, space, name, action in objects(back)}
    assert {manifest for manifest in objects(there) if manifest[3] in ("added", "removed")} == {
        entry for entry in swapped if entry[3] in ("added", "removed")
    }
    assert [(t.pods.before, t.accelerators.before) for t in sorted_totals(there)] == [
        (t.pods.after, t.accelerators.after) for t in sorted_totals(back)
    ]


@given(ANY_VALUE, ANY_VALUE)
@examples(3)
def test_difference_exists_exactly_if_values_differ(old: Any, new: Any) -> None:
    one, other = ({"kind": "X", "metadata": {"name": "x"}, "spec": spec} for spec in (old, new))
    difference = compare([one], [other])
    if is_equal(to_plain(old), to_plain(new)):
        assert not difference
    else:
        (change,) = difference.objects
        assert change.fields
        assert all(
            field.kind != "changed" or not is_equal(field.old, field.new) for field in change.fields
        )


@given(st.lists(st.tuples(NAMES, st.integers(0, 3)), max_size=6), st.data())
def test_order_of_keys_is_not_a_difference(
    pairs: list[tuple[str, int]], data: st.DataObject
) -> None:
    spec = dict(pairs)
    shuffled = dict(data.draw(st.permutations(list(spec.items()))))
    manifest = {"kind": "X", "metadata": {"name": "x"}}
    assert not compare([{**manifest, "spec": spec}], [{**manifest, "spec": shuffled}])


def sorted_totals(difference: Difference) -> list[Any]:
    return sorted(difference.totals, key=lambda totals: (totals.namespace, totals.service))
