"""Pulumi YAML programs are read without Pulumi's language host."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from cli.projects import Folder, messages

from fusioninfer_pulumi.cli.main import main

HEAD = "name: app\nruntime: yaml\n"
EXAMPLE = Path(__file__).parents[2] / "examples" / "yaml"
CONFIG_MAP = "type: kubernetes:core/v1:ConfigMap"


def test_values_are_resolved_without_a_provider(folder: Folder) -> None:
    folder.write(
        "Pulumi.yaml",
        f"""
        name: app
        runtime: yaml
        config:
          count: {{type: integer, default: 2}}
          team: models
          token: {{type: string, secret: true, default: hunter2-long}}
        variables:
          joined: a-${{team}}
          lists: [{{names: [x, "${{team}}"]}}]
        resources:
          facts:
            {CONFIG_MAP}
            properties:
              metadata: {{name: facts, namespace: "${{team-namespace.metadata.name}}"}}
              data:
                token: ${{token}}
                text: n=${{count}} ${{joined}}
                escaped: $${{keep}}
                stack: ${{pulumi.stack}}
                uid: ${{team-namespace.metadata.uid}}
                item: ${{lists[0].names[1]}}
                joined: ${{count}} in ${{team-namespace.metadata.name}}
                hidden: {{fn::secret: "${{team}}"}}
                url: https://${{token}}@host
          team-namespace:
            type: kubernetes:core/v1:Namespace
            properties: {{metadata: {{name: "${{team}}"}}}}
          chart:
            type: kubernetes:helm.sh/v4:Chart
            properties: {{chart: nginx}}
          custom:
            type: kubernetes:apiextensions.k8s.io:CustomResource
            properties:
              {{apiVersion: x.io/v1, kind: Thing, metadata: {{name: thing}}, spec: {{a: 1}}}}
        outputs:
          name: ${{facts.metadata.name}}
        """,
    )
    recording = folder.run()
    by_kind = {item["kind"]: item for item in recording.objects}
    assert list(by_kind) == ["Namespace", "ConfigMap", "Thing"]
    assert by_kind["Thing"]["spec"] == {"a": 1}
    assert by_kind["ConfigMap"]["metadata"] == {"name": "facts", "namespace": "models"}
    assert by_kind["ConfigMap"]["data"] == {
        "escaped": "${keep}",
        "hidden": "<secret>",
        "item": "models",
        "joined": "2 in models",
        "stack": "dev",
        "text": "n=2 a-models",
        "token": "<secret>",
        "uid": "<unknown>",
        "url": "<secret>",
    }
    (unknown,) = messages(recording)
    assert "helm.sh/v4:Chart" in unknown


def test_service_of_a_yaml_program_is_rendered_as_its_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = yaml.safe_load((EXAMPLE / "Pulumi.yaml").read_text())
    roles = program["resources"]["qwen"]["properties"]["roles"]
    roles[0]["replicas"] = program["config"]["replicas"]["default"]
    manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "qwen"},
        "spec": {"roles": roles},
    }
    file = tmp_path / "qwen.yaml"
    file.write_text(yaml.safe_dump(manifest))
    for path in (EXAMPLE, EXAMPLE / "Pulumi.yaml"):
        assert main(["diff", str(file), str(path)]) == 0, capsys.readouterr().out


def test_finding_of_a_yaml_program_has_the_line_of_its_resource(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = "[{name: a, componentType: worker, replicas: -1}]"
    service = f"type: fusioninfer:InferenceService\n    properties: {{roles: {roles}}}\n"
    folder.write("Pulumi.yaml", f"{HEAD}resources:\n  svc:\n    {service}")
    assert main(["check", str(folder.root)]) == 2
    assert "roles[0].replicas: must be at least 0, got -1" in capsys.readouterr().err
    image = "{spec: {containers: [{name: vllm, image: 'vllm/vllm-openai:v0.11.0'}]}}"
    roles = f"[{{name: a, componentType: worker, template: {image}}}]"
    service = f"type: fusioninfer:InferenceService\n    properties: {{roles: {roles}}}\n"
    folder.write("Pulumi.yaml", f"{HEAD}resources:\n  svc:\n    {service}")
    main(["check", str(folder.root), "--verbose"])
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith(f"{folder.root}/Pulumi.yaml:4: ")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("resources: [a]\n", "resources must be a mapping"),
        ("main: src\n", "main of a YAML program needs the Pulumi engine"),
        ("resources: {a: {}}\n", "resources.a: type is missing"),
        (
            "resources: {a: {type: 'fusioninfer:InferenceServce'}}\n",
            "resources.a: type fusioninfer:InferenceServce is not one of fusioninfer:",
        ),
        (
            f"resources: {{a: {{{CONFIG_MAP}, properties: {{data: '${{gone.b}}'}}}}}}\n",
            "the program has no resource, variable or config gone",
        ),
        ("variables: {a: '${b}', b: '${a}'}\noutputs: {a: '${a}'}\n", "a refers to itself"),
        (
            "outputs: {a: {fn::readFile: gone}}\n",
            "fn::readFile needs the Pulumi engine; run `pulumi preview`",
        ),
        (
            f"resources: {{a: {{{CONFIG_MAP}, get: {{id: default/a}}}}}}\n",
            "resources.a: get needs the Pulumi engine; run `pulumi preview`",
        ),
        ("variables: {a: {b: 1}}\noutputs: {a: '${a.c}'}\n", "KeyError: 'c'"),
    ],
)
def test_invalid_yaml_program_is_an_error(folder: Folder, program: str, message: str) -> None:
    folder.write("Pulumi.yaml", HEAD + program)
    assert message in folder.fails()


def test_python_file_is_read_as_its_project_or_rejected(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.reads(a="'b'")
    program = folder.root / "__main__.py"
    assert main(["render", str(program)]) == 0
    assert "kind: ConfigMap" in capsys.readouterr().out
    (folder.root / "Pulumi.yaml").unlink()
    assert main(["plan", str(program)]) == 2
    assert capsys.readouterr().err == (
        f"{program}: is a Python program; pass the directory of its Pulumi.yaml instead "
        "[unreadable-file]\n"
    )
