"""Pairs of prefill and decode pods during an update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.routers import NEEDS_LLM_D
from e2e.strategies.fleet import Fleet, PickerClient

LABEL = "fusioninfer.io/pair-revision"
PREFILLER = "x-prefiller-host-port"
REQUESTS = 40


@pytest.fixture
def mixed(pairing: Fleet) -> Iterator[tuple[Fleet, list[str]]]:
    """Give one of three prefill pods and one of three decode pods another pair revision."""
    pairing.load()
    old = [next(name for name in sorted(pairing.engines) if role in name)
           for role in ("-prefill-", "-decode-")]  # fmt: skip
    before = {name: read_revision(pairing, name) for name in old}
    for name in old:
        set_revision(pairing, name, "0ld")
    yield pairing, old
    for name, value in before.items():
        set_revision(pairing, name, value)


def read_revision(fleet: Fleet, pod: str) -> str:
    return str(fleet.cluster.get("v1/Pod", pod, fleet.namespace)["metadata"]["labels"][LABEL])


def set_revision(fleet: Fleet, pod: str, value: str) -> None:
    fleet.cluster.patch("v1/Pod", pod, {"metadata": {"labels": {LABEL: value}}}, fleet.namespace)


def count_pairs(fleet: Fleet, picker: PickerClient) -> Counter[tuple[str, str]]:
    revisions = {pod: read_revision(fleet, pod) for pod in fleet.engines}
    fleet.wait_scraped()
    counts: Counter[tuple[str, str]] = Counter()
    for _ in range(REQUESTS):
        answer = picker.send_request()
        prefill = picker.get_pod_at(answer.headers[PREFILLER])
        counts[revisions[prefill], revisions[picker.get_pod(answer)]] += 1
    return counts


@NEEDS_LLM_D
@pytest.mark.verifies(
    "A request gets prefill and decode pods of one pair revision; without a partner, any",
    needs="llm-d-epp is on PATH",
)
def test_request_stays_within_one_pair_revision(mixed: tuple[Fleet, list[str]]) -> None:
    fleet, (prefill, decode) = mixed
    with fleet.run_picker("llm-d", strategy="pd-disaggregation") as picker:
        counts = count_pairs(fleet, picker)
        assert all(prefilled == decoded for prefilled, decoded in counts), counts
        assert ("0ld", "0ld") in counts
        assert len(counts) == 2
        # Without a prefill pod of its revision, the old decode pod still gets requests.
        set_revision(
            fleet,
            prefill,
            read_revision(fleet, next(n for n in fleet.engines if n not in (prefill, decode))),
        )
        later = count_pairs(fleet, picker)
        assert later.total() == REQUESTS
        assert any(decoded == "0ld" for _, decoded in later), later
