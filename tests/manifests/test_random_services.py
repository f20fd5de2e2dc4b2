"""Random services that use every feature are rendered as before.

The golden file has, for each seed, hashes of the documents and of the objects, and the exit status
of `render`. `tools/compare_versions.py OLD_CHECKOUT` shows differences. `pytest --regenerate`
writes the file, and adds seeds for features that no service uses yet.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from random_services import generate_service
from random_services.coverage import schema_features, used_features
from random_services.outcome import rendered

from fusioninfer_pulumi.schemas.kind_schema import kind_schema

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "fixtures" / "golden" / "random-services.json"
SCHEMA = json.loads((ROOT / "docs" / "inference-service.schema.json").read_text(encoding="utf-8"))

#: Seeds that are always in the golden file, and seeds that may be added for features.
FIRST, MOST = range(200), range(4000)

#: Seeds that the fast tests compare.
FEW = 15

#: Kinds without a schema, because no pinned module defines them.
WITHOUT = {
    ("networking.istio.io/v1", "DestinationRule"),
    ("networking.gke.io/v1", "GCPBackendPolicy"),
    ("networking.gke.io/v1", "HealthCheckPolicy"),
    ("scheduling.k8s.io/v1beta1", "PodGroup"),
    ("llm-d.ai/v1", "InferenceObjective"),
}

#: Hash of the documents, exit status, hash of the objects.
Row = tuple[str, int, str]


def short_hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def row_and_kinds(seed: int) -> tuple[Row, frozenset[tuple[str, str]]]:
    """Return the row of a seed, and the API version and kind of each of its objects."""
    documents = generate_service(seed).documents
    status, text, _ = rendered(documents, "json")
    objects = json.loads(text) if status == 0 else {"items": []}
    kinds = frozenset((item["apiVersion"], item["kind"]) for item in objects["items"])
    return (short_hash(documents), status, short_hash(objects) if status == 0 else ""), kinds


def row(seed: int) -> Row:
    return row_and_kinds(seed)[0]


def features(seed: int) -> set[str]:
    """Return the features of the schema that a seed's services use; none if they are rejected."""
    if row(seed)[1] != 0:
        return set()
    return set().union(
        *(used_features(SCHEMA, document) for document in generate_service(seed).documents)
    )


def golden() -> dict[int, Row]:
    if not GOLDEN.exists():
        return {}
    result = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return {int(seed): tuple(item) for seed, item in result.items()}


def with_every_feature(seeds: set[int]) -> list[int]:
    """Add seeds until at least two rendered services use each feature."""
    seeds = set(seeds)
    used = Counter(feature for seed in seeds for feature in features(seed))
    missing = {feature for feature in schema_features(SCHEMA) if used[feature] < 2}
    for seed in MOST:
        if not missing:
            break
        if seed not in seeds and missing & features(seed):
            seeds.add(seed)
            used.update(features(seed))
            missing -= {feature for feature in missing if used[feature] > 1}
    return sorted(seeds)


@pytest.mark.parametrize("count", [FEW, pytest.param(MOST.stop, marks=pytest.mark.slow)])
def test_random_services_render_golden_objects(regenerate: bool, count: int) -> None:
    if regenerate:
        seeds = with_every_feature({*FIRST, *golden()})
        rows = [f'"{seed}": {json.dumps(row(seed))}' for seed in seeds]
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    wanted = dict(list(golden().items())[:count])
    result = {seed: row(seed) for seed in wanted}
    other_items = [seed for seed in wanted if result[seed][0] != wanted[seed][0]]
    assert not other_items, "tests/random_services generates other manifests from these seeds"
    changed = [seed for seed in wanted if result[seed] != wanted[seed]]
    assert not changed, "to see changes: tools/compare_versions.py CHECKOUT --seed SEED --count 1"


@pytest.mark.slow
def test_every_rendered_kind_has_a_schema() -> None:
    kinds = {kind for seed in golden() for kind in row_and_kinds(seed)[1]}
    assert len(kinds) > 10
    assert {kind for kind in kinds if kind_schema(*kind) is None} <= WITHOUT


@pytest.mark.slow
def test_golden_services_use_every_schema_feature() -> None:
    used = {feature for seed in golden() for feature in features(seed)}
    assert schema_features(SCHEMA) - used == set()
