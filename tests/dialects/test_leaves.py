"""No field of another system's manifest is dropped in silence."""

from __future__ import annotations

from dialects import kserve_strategies, kthena_samples, kthena_strategies, modelplane_strategies
from dialects.leaves import Manifest, silent
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from profiles import examples

# Each example converts a document once for each of its leaves: shrinking would take minutes.
quickly = settings(examples(0.3), phases=(Phase.explicit, Phase.reuse, Phase.generate))


@quickly
@given(kthena_strategies.model_servings())
def test_every_leaf_of_a_model_serving_is_in_the_service_or_named(document: Manifest) -> None:
    assert silent([document], kthena_strategies.OTHERS) == []


@quickly
@given(modelplane_strategies.released())
def test_every_leaf_of_a_model_deployment_is_in_the_service_or_named(document: Manifest) -> None:
    assert silent([document], modelplane_strategies.OTHERS) == []


@quickly
@given(modelplane_strategies.released(), modelplane_strategies.caches())
def test_every_leaf_of_a_model_cache_is_in_the_service_or_named(
    deployment: Manifest, cache: Manifest
) -> None:
    deployment["metadata"].pop("namespace", None)
    spec = deployment["spec"]
    spec.get("template", {"spec": spec})["spec"]["modelCacheRef"] = {"name": "cache"}
    assert silent([deployment, cache], modelplane_strategies.OTHERS) == []


@quickly
@given(modelplane_strategies.released(), modelplane_strategies.services())
def test_every_leaf_of_a_model_service_is_in_the_service_or_named(
    deployment: Manifest, service: Manifest
) -> None:
    deployment["metadata"].pop("namespace", None)
    another = {**deployment, "metadata": {"name": "elsewhere"}}
    assert silent([service], modelplane_strategies.OTHERS, [deployment, another]) == []


@quickly
@given(modelplane_strategies.proposed())
def test_every_leaf_of_the_proposal_is_in_the_service_or_named(document: Manifest) -> None:
    assert silent([document], modelplane_strategies.OTHERS) == []


@quickly
@given(kserve_strategies.llm_services())
def test_every_leaf_of_an_llm_inference_service_is_in_the_service_or_named(
    documents: list[Manifest],
) -> None:
    assert silent(documents, kserve_strategies.OTHERS) == []


@quickly
@given(
    kthena_strategies.model_servings(),
    kthena_strategies.model_servers(),
    kthena_strategies.model_routes(),
    st.booleans(),
)
def test_every_leaf_of_kthenas_routing_is_in_a_service_or_named(
    serving: Manifest, server: Manifest, route: Manifest, known: bool
) -> None:
    serving["metadata"].pop("namespace", None)
    # With the other target, weights are shares.
    name = "modelserving.volcano.sh/name"
    other = [kthena_samples.serving(name="two"), kthena_samples.server("other", {name: "two"})]
    beside = [serving, *(other if known else ())]
    assert silent([server, route], kthena_strategies.OTHERS, beside) == []


@quickly
@given(kthena_strategies.model_servings(), kthena_strategies.policies())
def test_every_leaf_of_kthenas_autoscaling_is_in_a_service_or_named(
    serving: Manifest, policies: list[Manifest]
) -> None:
    serving["metadata"].pop("namespace", None)
    assert silent(policies, kthena_strategies.OTHERS, [serving]) == []
