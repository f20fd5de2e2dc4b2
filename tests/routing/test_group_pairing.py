"""Endpoint pickers pair prefill and decode pods by serving group or by pair revision."""

from __future__ import annotations

from typing import Any

import yaml
from routed import pair
from samples import Manifest, plan_of, problems, rendered

from fusioninfer_pulumi.kube import labels


def config(manifest: Manifest) -> dict[str, Any]:
    (item,) = [entry for entry in rendered(manifest) if entry["kind"] == "ConfigMap"]
    read: dict[str, Any] = yaml.safe_load(item["data"]["config.yaml"])
    return read


def arguments(manifest: Manifest) -> list[str]:
    (item,) = [entry for entry in rendered(manifest) if entry["kind"] == "Deployment"]
    listed: list[str] = item["spec"]["template"]["spec"]["containers"][0]["args"]
    return listed


def paired(groups: int | None = 2, **router: Any) -> Manifest:
    result = pair(**router)
    if groups is not None:
        result["spec"]["groups"] = groups
    return result


EXPERIMENTAL = "--allow-experimental-plugins=true"
#: The last llm-d release without plugins that pair pods by a label.
OLD_PICKER = {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}


def topology_plugins(label: str, name: str) -> list[dict[str, Any]]:
    return [
        {"type": "topology-extractor", "parameters": {"hostname": f"fusioninfer.io/{label}"}},
        {"type": "topology-affinity-filter", "name": name, "parameters": {"minAffinity": "host"}},
    ]


def check_prefill_profile(config: dict[str, Any], filter_name: str) -> None:
    """Check that the filter follows the filter by role, in the prefill profile alone."""
    prefill, decode = (
        [plugin["pluginRef"] for plugin in profile["plugins"]]
        for profile in config["schedulingProfiles"]
    )
    assert prefill[:2] == ["prefill-pods", filter_name]
    assert filter_name not in decode


def test_picker_prefers_prefill_pods_of_the_pair_revision() -> None:
    name = "prefill-pods-of-the-pair-revision"
    item, old = config(paired(None)), config(paired(None, endpointPicker=OLD_PICKER))
    assert item["plugins"] == [*topology_plugins("pair-revision", name), *old["plugins"]]
    check_prefill_profile(item, name)
    assert EXPERIMENTAL in arguments(paired(None))
    assert EXPERIMENTAL not in arguments(paired(None, endpointPicker=OLD_PICKER))


def test_plan_notes_picker_that_cannot_prefer_a_pair_revision() -> None:
    note = "llm-d-0.9 cannot prefer prefill pods with the decode pod's pair revision"
    for router, expected in (({"endpointPicker": OLD_PICKER}, True), ({}, False)):
        routing = plan_of(paired(None, **router)).routing
        assert routing is not None
        assert routing.picker is not None
        assert (note in routing.picker.epp.summary) is expected


def pair_revisions(manifest: Manifest) -> set[str | None]:
    """Return the pair revisions of all LeaderWorkerSets and of their pods."""
    sets = [item for item in rendered(manifest) if item["kind"] == "LeaderWorkerSet"]
    pods = [item["spec"]["leaderWorkerTemplate"]["workerTemplate"] for item in sets]
    assert sets
    return {item["metadata"]["labels"].get(labels.PAIR_REVISION) for item in [*sets, *pods]}


def with_engine(image: str | None = None, *more: str, replicas: int = 1) -> Manifest:
    manifest = paired(None)
    for role in manifest["spec"]["roles"][1:]:
        role["replicas"] = replicas
        (container,) = role["template"]["spec"]["containers"]
        container["image"] = image or container["image"]
        container["args"] = [*container["args"], *more]
    return manifest


def test_pair_revision_changes_with_handshake_settings_only() -> None:
    (plain,) = pair_revisions(with_engine())
    assert plain is not None
    assert pair_revisions(with_engine(replicas=3)) == {plain}
    assert pair_revisions(with_engine(None, "--max-num-seqs=7")) == {plain}
    for changed in (with_engine("vllm/vllm-openai:v0.31.0"), with_engine(None, "--dtype=half")):
        (other,) = pair_revisions(changed)
        assert other not in (None, plain)


def test_unknown_handshake_has_no_pair_revision() -> None:
    unknown = with_engine(None, "--config=/etc/vllm.yaml")
    assert pair_revisions(unknown) == {None}
    plugins = {plugin["type"] for plugin in config(unknown)["plugins"]}
    assert not any("topology" in plugin for plugin in plugins)


def test_picker_pairs_within_a_group() -> None:
    result = config(paired())
    plain = config(paired(None, endpointPicker=OLD_PICKER))
    screener = {
        "type": "disaggregatedset-rollout-screener",
        "parameters": {
            "scope": {
                "labelSelector": "fusioninfer.io/service=svc,"
                "leaderworkerset.sigs.k8s.io/worker-index=0"
            },
            "revisionGating": {
                "mode": "sum",
                "revisionLabelKey": "fusioninfer.io/group-index",
                "roleLabelKey": "fusioninfer.io/component-type",
                "requireRoles": {"values": ["prefiller", "decoder"]},
            },
        },
    }
    assert result == {**plain, "plugins": [screener, *plain["plugins"]]}
    assert EXPERIMENTAL in arguments(paired())


def test_picker_config_does_not_depend_on_number_of_groups() -> None:
    assert config(paired(1)) == config(paired(3))


def test_preferred_pairing_only_prefers_prefill_pods_of_the_group() -> None:
    preferred = paired(endpointPicker={"groupPairing": "Preferred"})
    item, plain = config(preferred), config(paired(None, endpointPicker=OLD_PICKER))
    added = [plugin for plugin in item["plugins"] if plugin not in plain["plugins"]]
    assert added == topology_plugins("group-index", "prefill-pods-of-the-group")
    check_prefill_profile(item, "prefill-pods-of-the-group")
    assert EXPERIMENTAL in arguments(preferred)


def test_picker_without_support_is_rejected() -> None:
    assert problems(paired(None, endpointPicker=OLD_PICKER)) == []
    (finding,) = problems(paired(endpointPicker=OLD_PICKER))
    assert finding == (
        "roles[0].endpointPicker.image: llm-d-0.9 cannot keep prefill and decode of a request in "
        "one group; use ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
    )
