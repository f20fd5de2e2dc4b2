"""Pods of unknown programs, and credentials in pods, of services with a `model`."""

from __future__ import annotations

from pods.models import main, serving

from tests.samples import warnings


def test_unknown_program_keeps_its_command() -> None:
    manifest = serving({"uri": "pvc://m"}, image="x", command=["/serve"])
    (one,) = warnings(manifest)
    assert one.startswith("warning: roles[0].template.spec.containers[0].command: the library")
    assert main(manifest)["command"] == ["/serve"]
    assert main(manifest)["volumeMounts"]


def test_literal_credential_is_reported_at_the_users_field() -> None:
    env = [{"name": "HF_TOKEN", "value": "hf_" + "a" * 30}]
    findings = warnings(serving({"uri": "s3://b/k", "fetcher": {"env": env}}))
    assert [finding.partition(": ")[2][:35] for finding in findings] == [
        "model.fetcher.env[0].value: HF_TOKE"
    ]
