"""`diff` masks the credentials that `check` finds, in every output format."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from profiles import slow_unless
from samples import container, role, service, template

from fusioninfer_pulumi.cli.main import main

FORMS = ("text", "markdown", "json")
OLD, NEW = "old-value-of-it", "new-value-of-it"
HF = ("hf_" + "a" * 24, "hf_" + "b" * 24)


def pods(value: str, look: str) -> Any:
    return template(
        container(
            args=["--model", "m", "--api-key", value, f"--hf-token={value}", "--seed", "1"],
            env=[
                {"name": "HF_TOKEN", "value": value},
                {"name": "AWS_SECRET_ACCESS_KEY", "value": value},
                {"name": "PGPASSWORD", "value": value},
                {"name": "DATABASE_URL", "value": f"postgres://user:{value}@db/name"},
                {"name": "HEADERS", "value": f"Authorization: Bearer {value}"},
                {"name": "OTHER", "value": look},
                {"name": "OPEN", "value": "shown"},
            ],
        )
    )


def script(value: str, look: str) -> Any:
    text = f"export HF_TOKEN={value}; echo {look}; exec vllm serve m --api-key '{value}' --port 1"
    return template(container(command=["sh", "-c", text]))


def secret(value: str, _: str) -> list[Any]:
    metadata = {"name": "s"}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"k": value}}
    ]


def config(value: str, look: str) -> list[Any]:
    data = {
        "run.sh": f"PASSWORD='{value}' PGPASSWORD={value} run {look}",
        "url": f"redis://:{value}@cache:6379",
        "headers.json": f'{{"Authorization": "Basic {value}"}}',
    }
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}]


CASES = {
    "variables and arguments": lambda *stream: [service(role(template=pods(*stream)))],
    "a script": lambda *stream: [service(role(template=script(*stream)))],
    "several nodes": lambda *stream: [
        service(role(template=pods(*stream), multinode={"nodeCount": 2}))
    ],
    "a Secret": secret,
    "a ConfigMap": config,
}


@pytest.mark.parametrize("form", slow_unless("text".__eq__, FORMS))
@pytest.mark.parametrize("case", CASES)
def test_changed_credentials_are_a_difference_that_is_not_shown(
    case: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value, look in (("old", OLD, HF[0]), ("new", NEW, HF[1])):
        documents = CASES[case](value, look)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(copy.deepcopy(documents)))
    sides = [str(tmp_path / f"{name}.yaml") for name in ("old", "new")]
    assert main(["diff", *sides, "--output", form]) == 1
    out, err = capsys.readouterr()
    for stream in (OLD, NEW, *HF, "\0"):
        assert stream not in out + err
    assert "secret" in out
    assert main(["diff", *sides, "--output", form, "--show-secrets"]) == 1
    assert NEW in capsys.readouterr().out


def test_same_credential_is_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "same.yaml"
    path.write_text(yaml.safe_dump(service(role(template=pods(OLD, HF[0])))))
    assert main(["diff", str(path), str(path)]) == 0


def test_added_credentials_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, manifest in (
        ("old", service(role(replicas=1))),
        ("new", service(role(template=pods(NEW, HF[1])))),
    ):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    main(["diff", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")])
    out = capsys.readouterr().out
    assert NEW not in out
    assert HF[1] not in out
    assert "shown" in out
    assert "--seed" in out
