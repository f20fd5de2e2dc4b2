"""No field of another system's manifest is dropped in silence."""

from __future__ import annotations

from dialects.kthena_strategies import OTHERS, Manifest, model_servings
from dialects.leaves import silent
from hypothesis import HealthCheck, Phase, given, settings

# Each example converts a document once for each of its leaves: shrinking would take minutes.
quickly = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@quickly
@given(model_servings())
def test_every_leaf_of_a_model_serving_is_in_the_service_or_named(document: Manifest) -> None:
    assert silent([document], OTHERS) == []
