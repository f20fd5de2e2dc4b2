"""Hypothesis strategies for Modelplane's documents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from importers.tests.modelplane_samples import GPU

Manifest = dict[str, Any]

VALID_VALUES = {
    "mode": ("Unified", "PrefillDecode"),
    "phase": ("Prefill", "Decode"),
    "role": ("Standalone", "Leader", "Worker"),
    "replicas": (1, 2),
}
_words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
_counts = st.integers(1, 3)


def _some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def templates(draw: st.DrawFn) -> Manifest:
    fields = draw(
        _some(
            {
                "args": st.lists(_words, max_size=2),
                "command": st.just(["vllm", "serve"]),
                "env": st.just([{"name": "A", "value": "b"}]),
            }
        )
    )
    spec = {"containers": [{"name": "engine", "image": draw(_words), **fields}]}
    secrets = draw(_some({"imagePullSecrets": st.just([{"name": "s"}])}))
    metadata = draw(
        _some({"metadata": st.just({"labels": {"app": "x"}, "annotations": {"a": "b"}})})
    )
    return {**metadata, "spec": {**spec, **secrets}}


@st.composite
def engines(draw: st.DrawFn, name: str, phase: str | None) -> Manifest:
    built: Manifest = {"name": name, **draw(_some({"copies": _counts}))}
    if phase is not None:
        built["phase"] = phase
    if draw(st.booleans()):
        one = {"nodeSelector": GPU, "template": draw(templates())}
        built["members"] = [{**one, **draw(_some({"role": st.just("Standalone")}))}]
    else:
        leader = {"role": "Leader", "template": draw(templates())}
        worker = {"role": "Worker", "nodeSelector": GPU, "template": draw(templates())}
        built["members"] = [leader, {**worker, **draw(_some({"worker": st.just({"nodes": 2})}))}]
    return built


_OUTER = {
    "clusterSelector": st.just({"matchLabels": {"region": "x"}}),
    "modelCacheRef": st.just({"name": "cache"}),
}


def _document(spec: Manifest, metadata: Manifest) -> Manifest:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "md", **metadata},
        "spec": spec,
    }


_metadata = _some(
    {"namespace": _words, "labels": st.just({"team": "a"}), "finalizers": st.just([])}
)


@st.composite
def released(draw: st.DrawFn) -> Manifest:
    """ModelDeployments of 0.1 and of later releases."""
    pairs = draw(st.booleans())
    if pairs:
        its = [draw(engines("p", "Prefill")), draw(engines("d", "Decode"))]
        serving: Manifest = {"serving": {"mode": "PrefillDecode"}}
    else:
        its = [draw(engines(name, None)) for name in draw(st.sampled_from((["a"], ["a", "b"])))]
        serving = draw(_some({"serving": st.just({"mode": "Unified"})}))
    tolerations = {"tolerations": st.just([{"key": "k", "operator": "Exists"}])}
    replica = {"engines": its, **serving, **draw(_some({**_OUTER, **tolerations}))}
    replicas = draw(_counts)
    if draw(st.booleans()):
        return _document({"replicas": replicas, **replica}, draw(_metadata))
    labels = draw(_some({"metadata": st.just({"labels": {"tier": "prod"}})}))
    template = {**labels, "spec": replica}
    return _document({"replicas": replicas, "template": template}, draw(_metadata))


@st.composite
def caches(draw: st.DrawFn) -> Manifest:
    """ModelCaches to which the deployments of this module refer."""
    hub = st.fixed_dictionaries(
        {"repo": st.just("org/model"), "sizeGiB": st.sampled_from((1, 40, 900))},
        optional={
            "revision": _words,
            "authSecret": st.sampled_from(({"name": "hub"}, {"name": "hub", "key": "token"})),
        },
    )
    fields = draw(
        _some({"clusterSelector": st.just({"matchLabels": {"region": "x", "tier": "y"}})})
    )
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "cache", **draw(_some({"labels": st.just({"team": "a"})}))},
        "spec": {"source": "HuggingFace", "huggingFace": draw(hub), **fields},
    }


@st.composite
def services(draw: st.DrawFn) -> Manifest:
    """ModelServices for the deployments of this module, among others."""
    wanted = st.sampled_from(
        (
            {"modelplane.ai/deployment": "md"},
            {"modelplane.ai/deployment": "md", "modelplane.ai/cluster": "east"},
            {"modelplane.ai/deployment": "elsewhere"},
            {"tier": "prod"},
        )
    )
    entry = st.fixed_dictionaries(
        {"selector": st.fixed_dictionaries({"matchLabels": wanted})},
        optional={"weight": st.integers(1, 5)},
    )
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": draw(_words), **draw(_some({"labels": st.just({"team": "a"})}))},
        "spec": {"endpoints": draw(st.lists(entry, min_size=1, max_size=3))},
    }


@st.composite
def _workers(draw: st.DrawFn) -> Manifest:
    topology = draw(
        st.fixed_dictionaries({"tensor": _counts}, optional={"pipeline": st.integers(1, 2)})
    )
    return {"topology": topology, "template": draw(templates()), **draw(_some({"count": _counts}))}


@st.composite
def proposed(draw: st.DrawFn) -> Manifest:
    """ModelDeployments of the disaggregation proposal."""
    container = draw(
        st.fixed_dictionaries(
            {"name": st.sampled_from(("epp", "other"))},
            optional={"image": _words, "args": st.just(["--v=5"]), "env": st.just([])},
        )
    )
    picker = {"spec": {"containers": [container], **draw(_some({"hostNetwork": st.booleans()}))}}
    prefill = st.fixed_dictionaries(
        {"workers": _workers()}, optional={"nodeSelector": st.just(GPU)}
    )
    fields = draw(
        _some(
            {
                **_OUTER,
                "replicas": _counts,
                "model": st.sampled_from(({}, {"name": "m"})),
                "nodeSelector": st.just(GPU),
                "prefill": prefill,
                "routing": st.sampled_from(({}, {"template": picker})),
            }
        )
    )
    return _document({"workers": draw(_workers()), **fields}, draw(_metadata))
