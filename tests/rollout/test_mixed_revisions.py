"""Updates in which incompatible parts of two revisions run together, and the effects on clients."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from profiles import slow_unless
from routed import LLM_D, pair, router
from rows import each_row
from samples import container, role, service, template

from fusioninfer_pulumi import load, plan_service, render
from fusioninfer_pulumi.cli.diff import compare, to_markdown
from fusioninfer_pulumi.cli.diff.timelines import simulate_updates
from fusioninfer_pulumi.engines.argument_tables import load_argument_table
from fusioninfer_pulumi.engines.metric_names import METRIC, has_metric
from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import (
    UpdateComparison,
    describe_mixed_revisions,
    extract_engines,
)

Manifest = dict[str, Any]
OLD_PICKER = {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
DEGRADED = (
    "mixed revisions, degraded: old prefill with new decode pods (release 0.31.0 -> 0.32.0), new "
    "prefill with old decode pods (release 0.32.0 -> 0.31.0): decode computes these prompts itself"
)
SOURCE = (
    " (vLLM 0.11.0 to 0.33.0, compute_nixl_compatibility_hash and KVTransferConfig; "
    "measured with 0.12.0, 0.17.0, 0.28.0, 0.31.0 and 0.32.0)"
)


def planned(
    release: str, *args: str, counts: tuple[int, int] = (2, 2), **more: Any
) -> tuple[ServicePlan, list[Manifest]]:
    manifest = pair(**more.pop("router", {}))
    manifest["spec"] |= more
    for fields, replicas in zip(manifest["spec"]["roles"][1:], counts, strict=True):
        fields["replicas"] = replicas
        fields["template"] = copy.deepcopy(fields["template"])
        (engine,) = fields["template"]["spec"]["containers"]
        image = release if "/" in release else f"vllm/vllm-openai:v{release}"
        engine |= {"image": image, "args": [*engine["args"], *args]}
    (args_,) = load(manifest)
    plan = plan_service(args_)
    return plan, list(render(plan))


def mixed(old: tuple[ServicePlan, Any], new: tuple[ServicePlan, Any]) -> list[str]:
    """Return the lines that `diff` and `plan --update` print."""
    plans = [old[0]], [new[0]]
    difference = compare(old[1], new[1], plans=plans)
    lines = [note for note in difference.notes if note.startswith("mixed revisions")]
    (update,) = simulate_updates(old[1], new[1], plans)
    assert [note for note in update.notes if note.startswith("mixed")] == lines
    assert update.to_json().get("mixedRevisions", []) == lines
    assert ("mixed revisions" in to_markdown(difference)) is bool(lines)
    return lines


@pytest.mark.parametrize(
    ("more", "advice"),
    slow_unless(lambda row: not row[1] or "groups" in row[0], [
        ({}, None),
        ({"rollout": {"roleOrder": "Sequential"}}, None),
        ({"groups": 2, "rollout": {"level": "Group"}}, None),
        ({"groups": 2}, "rollout.level: Group avoids it"),
        ({"counts": (1, 2)},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"layout": "PerRole"},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"rollout": {"strategy": "AllAtOnce"}},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"router": {"endpointPicker": OLD_PICKER}},
         "the endpoint picker of llm-d 0.10 or later avoids it"),
    ]),
)  # fmt: skip
def test_release_change_reports_consequence_for_clients_and_remedy(
    more: Manifest, advice: str | None
) -> None:
    expected = [] if advice is None else [f"{DEGRADED}; {advice}{SOURCE}"]
    assert mixed(planned("0.31.0", **more), planned("0.32.0", **more)) == expected


@pytest.mark.parametrize(
    ("counts", "surge", "is_reported"),
    [
        ((2, 1), {}, True),
        ((1, 1), {"rollout": {"maxSurge": 1, "maxUnavailable": 0}}, False),
        ((1, 1), {"rollout": {"maxSurge": 1}}, True),
        ((1, 2), {}, False),
    ],
)
def test_restart_of_only_decode_replica_is_an_outage(
    counts: tuple[int, int], surge: Manifest, is_reported: bool
) -> None:
    more = {"counts": counts, **({"layout": "PerRole", **surge} if surge else {})}
    lines = mixed(planned("0.31.0", **more), planned("0.32.0", **more))
    outage = (
        "mixed revisions, broken: clients and decode pods: requests fail with HTTP 429 or 503 "
        "while the only decode replica restarts; two decode replicas avoid this; layout: PerRole "
        "with rollout.maxSurge: 1 and rollout.maxUnavailable: 0 avoids almost all failures "
        "(measured with vLLM 0.31.0 and 0.32.0, docs/failures.md)"
    )
    assert (outage in lines) is is_reported


def test_unknown_picker_image_is_reported_when_it_is_new() -> None:
    own = {"image": "example.com/epp:mine", "family": "llm-d-0.10"}
    new = planned("0.32.0", router={"endpointPicker": own})
    (line,) = mixed(planned("0.32.0"), new)
    assert line == (
        "mixed revisions, unknown: engines and sidecars with the new endpoint picker "
        "(example.com/epp:mine): it is unknown whether it reads their metrics, and which headers "
        "it sends"
    )
    assert mixed(new, new) == []


def test_scaling_in_the_same_update_pairs_old_with_new_pods() -> None:
    advice = "an update that adds or removes no replicas avoids it"
    lines = mixed(planned("0.31.0"), planned("0.32.0", counts=(3, 2)))
    assert lines == [f"{DEGRADED}; {advice}{SOURCE}"]


def test_old_pods_without_pair_revision_are_mixed() -> None:
    old = planned("0.31.0")
    for manifest in old[1]:
        manifest["metadata"]["labels"].pop(labels.PAIR_REVISION, None)
    (line,) = mixed(old, planned("0.32.0"))
    assert "cannot avoid it, because the old pods have no pair revision; later updates can" in line


@pytest.mark.parametrize("counts", [(1, 1), (2, 2)])
def test_update_without_effect_on_the_handshake_reports_nothing(counts: tuple[int, int]) -> None:
    old = planned("0.32.0", counts=counts)
    lines = mixed(old, planned("0.32.0", "--max-num-seqs=7", counts=counts))
    assert not any("prefill" in line for line in lines)


def test_unknown_compatibility_is_reported_without_evidence() -> None:
    old, new = (planned(f"example.com/vllm/vllm-openai:{tag}", counts=(1, 2)) for tag in "ab")
    pairs, metrics = mixed(old, new)
    assert pairs.startswith("mixed revisions, unknown: old prefill with new decode pods")
    assert "it is unknown whether decode can use these KV caches" in pairs
    assert metrics == (
        "mixed revisions, unknown: endpoint picker with new prefill pods, endpoint picker with new "
        "decode pods: it is unknown whether both images have the metrics that it reads; compare "
        "their metrics before this update"
    )


def test_unknown_sidecar_is_reported_when_it_is_new() -> None:
    old, new = (planned("0.32.0", router={"endpointPicker": {"image": LLM_D}}) for _ in range(2))
    for manifest in new[1]:
        template_of_lws = (manifest.get("spec") or {}).get("leaderWorkerTemplate")
        pod = template_of_lws["workerTemplate"]["spec"] if template_of_lws else {}
        for sidecar in pod.get("initContainers", ()):
            sidecar["image"] = "example.com/llm-d-router-disagg-sidecar:mine"
    (line,) = mixed(old, new)
    assert line == (
        "mixed revisions, unknown: endpoint picker with new decode pods (sidecar "
        "example.com/llm-d-router-disagg-sidecar:mine): it is unknown whether this sidecar reads "
        "the picker's headers"
    )


def worker(
    *args: str,
    release: Any = "0.32.0",
    engine: str = "vllm",
    query: str = "",
    rewrites: Manifest | None = None,
    spec: Manifest | None = None,
) -> tuple[ServicePlan, list[Manifest]]:
    """Plan a service of one worker role that starts the engine with these arguments."""
    programs = {
        "vllm": ("vllm/vllm-openai", ["vllm", "serve", "m"]),
        "sglang": ("lmsysorg/sglang", ["python3", "-m", "sglang.launch_server", "--model-path=m",
                                       "--enable-metrics", "--host=0.0.0.0"]),
    }  # fmt: skip
    name, command = programs[engine]
    is_image = not isinstance(release, str) or "/" in release
    image = release if is_image else f"{name}:v{release}"
    port = [] if engine == "vllm" else ["--port=8000"]
    pods = template(
        container(
            gpus=1,
            image=image,
            command=command,
            args=[*port, *args],
            ports=[{"name": "http", "containerPort": 8000}],
        )
    )
    more: Manifest = {}
    if query:
        metric = {"query": query, "target": "5"}
        more = {"autoscaling": {"engine": "KEDA", "prometheus": "http://p:9090", "maxReplicas": 3,
                                "metrics": [metric]}}  # fmt: skip
    (args_,) = load(
        service(router(**(rewrites or {})), role("worker", template=pods, **more), **(spec or {}))
    )
    plan = plan_service(args_)
    return plan, list(render(plan))


API = "(vLLM 0.11.0 to 0.33.0, _check_model and ChatMessage)"
NAMES = "--served-model-name"
LORA = ("--enable-lora", "--lora-modules")
KEEP = (
    "keep the old name (--served-model-name, --lora-modules or modelRewrites) until the update is "
    "over and no client requests it"
)
FORM = "make clients accept both formats before this update"
QUERY = "query the names of both releases, joined by `or`"
TPOT = "sum(rate(vllm:time_per_output_token_seconds_sum[1m]))"
ITL = "sum(rate(vllm:inter_token_latency_seconds_sum[1m]))"


REWRITES = [{"models": ["a"], "targets": [{"model": "b"}]}]
of = partial(partial, worker)


def fails(names: str, pods: str = "new worker") -> str:
    return (
        f"broken: clients with {pods} pods: requests for {names} fail with HTTP 404 on these "
        f"pods; {KEEP} {API}"
    )


def answers(flag: str, before: str, after: str, text: str) -> str:
    return (
        f"degraded: clients and new worker pods ({flag} {before} -> {after}): responses "
        f"{text}; {FORM}"
    )


@each_row(
    ("old", "new", "expected"),
    [
        # Clients: names.
        (of(NAMES, "a"), of(NAMES, "b"), [fails("a")]),
        (of(NAMES, "a", "b"), of(NAMES, "b"), [fails("a")]),
        (of(NAMES, "a"), of(NAMES, "a", "b"), []),
        (of(NAMES, "a"), of(NAMES, "a", "--seed=1"), []),
        (of(), of(NAMES, "b"), [fails("m")]),
        (of(*LORA, "x=/x", "y=/y"), of(*LORA, "y=/y"), [fails("x")]),
        (of(NAMES, "$NAME"), of(NAMES, "$NAME", release="0.33.0"), []),
        (of(NAMES, "$NAME"), of(NAMES, "b"),
         ["unknown: clients with old worker pods: it is unknown which names they serve"]),
        (of(NAMES, "a", engine="sglang", release="0.5.23"),
         of(NAMES, "b", engine="sglang", release="0.5.23"), []),
        # The endpoint picker rewrites names for pods of both revisions.
        (of(NAMES, "a"),
         of(NAMES, "b", rewrites={"modelRewrites": REWRITES}),
         [fails("a", "old worker")]),
        # An alias that the endpoint picker no longer rewrites.
        (of(NAMES, "b", rewrites={"modelRewrites": REWRITES}), of(NAMES, "b"),
         [fails("a", "worker")]),
        (of(NAMES, "b", rewrites={"modelRewrites": REWRITES}), of(NAMES, "a", "b"), []),
        # Clients: form of the answers.
        (of("--reasoning-parser=qwen3"), of("--reasoning-parser=deepseek_r1"),
         [answers("--reasoning-parser", "qwen3", "deepseek_r1",
                  "may split off the reasoning differently")]),
        (of("--reasoning-parser=qwen3"), of(),
         [answers("--reasoning-parser", "qwen3", "unset",
                  "contain the reasoning in their content")]),
        (of(), of("--enable-auto-tool-choice", "--tool-call-parser=hermes"), []),
        (of("--reasoning-parser=qwen3", release="0.15.1"),
         of("--reasoning-parser=qwen3", release="0.16.0"),
         [("degraded: clients and new worker pods: responses contain the reasoning in "
          f"`reasoning`, not in `reasoning_content`; {FORM} {API}")]),
        (of("--reasoning-parser=qwen3", release="0.11.2"),
         of("--reasoning-parser=qwen3", release="0.15.1"), []),
        # Readers of metrics.
        (of(query=TPOT, release="0.11.2"), of(query=TPOT, release="0.12.0"),
         [("degraded: ScaledObject svc-worker with new worker pods: these pods do not "
          "export vllm:time_per_output_token_seconds_sum, so their load is not counted; "
          f"{QUERY} (sources of each release, tools/engine_metrics.py)")]),
        (of(query=TPOT, release="0.11.2"),
         of(query=f"{TPOT} or {ITL}", release="0.12.0"), []),
        (of(query=TPOT, release="0.11.2"), of(query=TPOT, release="v.example/e:1"),
         [("unknown: Deployment svc-epp with new worker pods, ScaledObject svc-worker with "
          "new worker pods: it is unknown whether both images have the metrics that it reads; "
          "compare their metrics before this update")]),
        (of(release="0.11.0"), of(release="0.33.0"), []),
    ],
)  # fmt: skip
def test_update_reports_what_clients_and_readers_of_metrics_see(
    old: Any, new: Any, expected: list[str]
) -> None:
    assert mixed(old(), new()) == [f"mixed revisions, {line}" for line in expected]


def test_generated_queries_match_all_known_releases() -> None:
    manifests = worker(spec={"monitoring": {"alerts": {}, "dashboards": {}}})[1]
    names = set(METRIC.findall(json.dumps(manifests)))
    assert len(names) > 10
    for engine in (VLLM, SGLANG):
        generated = [*filter(None, engine.telemetry.load_metrics), *(":".join(n) for n in names)]
        for release in load_argument_table(engine.name).releases:
            for name in generated:
                if name.startswith(engine.name):
                    assert has_metric(name, engine.name, release), (name, release)


@pytest.mark.parametrize("folder", ["docs", "examples"])
def test_metrics_that_pages_and_examples_name_exist(folder: str) -> None:
    files = (Path(__file__).parents[2] / folder).rglob("*.*")
    texts = [file.read_text("utf-8") for file in files if file.suffix in (".md", ".py", ".yaml")]
    named = {match.group() for text in texts for match in METRIC.finditer(text)}
    newest = [(engine, load_argument_table(engine).releases[-1]) for engine in ("vllm", "sglang")]
    assert named
    assert {name for name in named if not any(has_metric(name, *e) for e in newest)} == set()


def test_image_that_is_an_output_is_unknown_only_where_the_revision_changes(
    output: Callable[[Any], Any],
) -> None:
    hidden = output("vllm/vllm-openai:v0.33.0")
    plan, manifests = worker(release=hidden)
    update = UpdateComparison(extract_engines(worker()[1]), manifests, plan)
    (line,) = describe_mixed_revisions(update)
    assert "unknown whether both images have the metrics" in line
    # The stack's state has the value of the Output.
    before = [replace(lws, command=update.before[0].command) for lws in update.after]
    assert describe_mixed_revisions(replace(update, before=before)) == []
