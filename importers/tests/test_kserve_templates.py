"""Go templates in KServe's specs are evaluated, or dropped with a finding."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_importers.kserve.templates import Scope, TemplateError, evaluate
from importers.tests.kserve_samples import ROUTER, URI, Manifest, container, llm, pod
from importers.tests.reads import check, reject, to_spec

SCOPE = Scope(
    {"name": "svc", "namespace": "ns", "annotations": {}},
    {"model": {"name": "m"}, "parallelism": {"data": 2, "dataRPCPort": 1}, "prefill": {}},
    {"EnableTLS": False},
)


@each_row(
    ("text", "result"),
    [
        ("{{ .Spec.Model.Name }}", "m"),
        ("a/{{- .ObjectMeta.Name -}} b", "a/svcb"),
        # KServe evaluates JSON, where a line break is two letters.
        ("a\n {{- .Name }}", "a\nsvc"),
        ('{"a":{"b":"{{ .ObjectMeta.Namespace }}"}}', '{"a":{"b":"ns"}}'),
        ("{{ if .GlobalConfig.EnableTLS }}HTTPS{{else}}HTTP{{- end }}", "HTTP"),
        ("{{ if .GlobalConfig.EnableTLS }}--ssl-certfile{{- end }}", ""),
        ("{{ ChildName .ObjectMeta.Name `-x` }}", "svc-x"),
        ('{{ ChildName .ObjectMeta.Name "-x" }}', "svc-x"),
        ("{{ or .Spec.Parallelism.DataLocal 1 }}/{{ or .Spec.Parallelism.Data 1 }}", "1/2"),
        ("{{ .Spec.Parallelism.DataRPCPort }}", "1"),
        ("{{ if and .Spec.Worker .Spec.Worker.Containers }}a{{ else if eq .Name `svc` }}b{{ end }}",
         "b"),
        ("{{ if not (and .Spec.Model .Spec.Worker) }}a{{ end }}", "a"),
        ("{{ if .Spec.Prefill }}a{{ end }}{{ if .Annotations }}b{{ end }}", "a"),
        ("{{ kvTransferConfig .Spec.KVCacheOffloading }}", ""),
        ("{{ shutdownTimeout .Spec.Template 15 }}", "40"),
    ],
)  # fmt: skip
def test_templates_evaluate_as_in_kserve(text: str, result: str) -> None:
    assert evaluate(text, SCOPE) == result


@each_row(
    "text",
    [
        "{{ .Spec.Worker.Containers }}", "{{ .Spec.Replicas }}", "{{ .Spec.Prefill }}", "{{ . }}",
        "{{ .GlobalConfig.Other }}", "{{ printf `%s` .Name }}", "{{ .Name | quote }}", "{{ $x }}",
        "{{ if .Name }}", "{{ end }}", "{{ .Name", "{{ if (.Name }}a{{ end }}", "{{ messages }}",
        "{{ if .Name }}a{{ else }}b{{ else }}c{{ end }}", "{{ ChildName .Name }}", "{{ }}",
        "{{ eq .Name 1 }}", "{{ range .Spec.Worker }}a{{ end }}", "{{ .Name .Name }}",
    ],
)  # fmt: skip
def test_unknown_template_is_rejected(text: str) -> None:
    with pytest.raises(TemplateError):
        evaluate(text, SCOPE)


WORDS = ["{{", "}}", "{{-", "-}}", " ", "if", "else", "end", "or", "eq", "(", ")", ".Name", "`a`",
         "1", ".Spec.Model", "ChildName", "nil", "x", "shutdownTimeout"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_template_is_evaluated_or_rejected(text: str) -> None:
    with contextlib.suppress(TemplateError):
        assert "{{" not in evaluate(text, SCOPE)


TLS = "{{ if .GlobalConfig.EnableTLS }}%s{{- end }}"
LOST = "{{ ChildName .ObjectMeta.Name `-kserve-prefill` }}"


def served(*args: str, **fields: object) -> Manifest:
    return llm(template=pod(command=["/app/sim"], args=list(args), **fields), router=ROUTER)


def test_certificate_arguments_are_dropped() -> None:
    document = served("--port", "8000", TLS % "--ssl-certfile", TLS % "/tls.crt")
    assert container(to_spec(document)["roles"][0])["args"] == ["--port", "8000"]
    assert sum("its Go template is empty here" in message for message in check(document)) == 2


def test_child_names_become_names_of_our_objects() -> None:
    word = "tcp://{{ ChildName .ObjectMeta.Name `-epp-service` }}:5557"
    document = served("--zmq-endpoint", word, "{{ ChildName .ObjectMeta.Name `-inference-pool` }}")
    args = container(to_spec(document)["roles"][0])["args"]
    assert args == ["--zmq-endpoint", "tcp://llm-epp:5557", "llm-pool"]


def test_dropped_value_drops_its_flag() -> None:
    variable = {"name": "A", "value": LOST}
    unnamed = {"name": LOST, "value": "x"}
    document = served("--a", LOST, "--b", "1", f"--c={LOST}", "--d", env=[variable, unnamed])
    findings = reject(document)
    places = ("env[0].value", "env[1].name", "args[1]", "args[4]")
    assert [item.split(": ")[1] for item in findings] == [
        f"template.containers[0].{place}" for place in sorted(places)
    ]
    assert all("KServe's llm-kserve-prefill does not exist here" in item for item in findings)
    result = container(to_spec(document, lossy=True)["roles"][0])
    assert result["args"] == ["--b", "1", "--d"]
    assert "A" not in {item["name"] for item in result["env"]}


def test_only_unknown_additional_arguments_are_dropped() -> None:
    value = f"--a '{LOST}' --b 'x y' --c '{{\"d\": \"{LOST} e\"}}' --f {{{{ .Name }}}}"
    document = llm(template=pod(env=[{"name": "VLLM_ADDITIONAL_ARGS", "value": value}]))
    result = container(to_spec(document, lossy=True)["roles"][0])
    assert result["args"][3:] == ["--b", "x y", "--f", "llm"]


def test_script_is_never_dropped() -> None:
    script = f"exec vllm serve /mnt/models --a {LOST}"
    document = llm(template=pod(command=["/bin/sh", "-c"], args=[script]))
    assert any(
        "args[0]: its Go template cannot be e" in problem
        for problem in reject(document, lossy=True)
    )


def test_templates_read_only_the_model_name_from_configs() -> None:
    document = served("--m={{ .Spec.Model.Name }}", "--u={{ .Spec.Model.URI }}")
    assert container(to_spec(document)["roles"][0])["args"] == ["--m=llm", f"--u={URI}"]


def test_volume_without_its_secret_is_dropped_with_its_mounts() -> None:
    name = "{{ ChildName .ObjectMeta.Name `-kserve-self-signed-certs` }}"
    main = pod(
        volumeMounts=[{"name": "tls", "mountPath": "/tls"}, {"name": "d", "mountPath": "/d"}]
    )
    volumes = [{"name": "tls", "secret": {"secretName": name}}, {"name": "d", "emptyDir": {}}]
    document = llm(template={**main, "volumes": volumes})
    result = to_spec(document)["roles"][0]["template"]["spec"]
    assert "tls" not in {volume["name"] for volume in result["volumes"]}
    assert "/tls" not in {mount["mountPath"] for mount in result["containers"][0]["volumeMounts"]}
    assert "/d" in {mount["mountPath"] for mount in result["containers"][0]["volumeMounts"]}
