"""Generates the reference pages from the code: fields, models, Outputs and the command line.

`python tools/regenerate.py` writes them; `tests/test_reference.py` compares the committed ones.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from json_schema import fields_schema, manifest_schema

from fusioninfer_pulumi.api.field_types import OUTPUT_MARK
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.cli.main import build_parser
from fusioninfer_pulumi.engines.engine_presets import CATALOGUE_ENGINE, PRESETS

_MODELS = Path(__file__).resolve().parent.parent / "fusioninfer_pulumi/presets/models.json"
_FIELDS = """\
# Which fields does an InferenceService have?

This page lists the fields of a manifest. In Python they have the same names in `snake_case`, as
attributes of `InferenceServiceArgs`, `RoleArgs` and so on. Editors can use the
[JSON Schema](../inference-service.schema.json).

"""
_COMMANDS = """\
# Which commands and options are there?

| Exit status | Meaning |
|---|---|
| 0 | success; `diff`: no difference |
| 1 | `diff` found a difference |
| 2 | invalid input or usage |
| 130 | interrupted with Ctrl-C |
| 141 | the output was closed early, for example by `head` |

"""
_CATALOGUE = """\
# Which models can I deploy by name?

These COUNT models. If you write no container for a role, the library generates one with the
number of GPUs and the arguments in the table. Arguments in your template replace them.

- The GPU columns show the smallest number of GPUs in one node that hold the weights and a request
  of the model's maximum length, as estimated by [fusioninfer-capacity](../capacity.md). If a cell
  is empty, the model needs more than one node of 8 GPUs.
- A number with a star is computed from the memory in vLLM's recipe; the engine then shortens the
  maximum length to what fits (`--max-model-len auto`).
- The arguments are those of vLLM's recipe (SOURCE, read on CHECKED). The parser of vLLM RELEASE
  accepts all of them, but no model was tested on a GPU.
- Quantized variants of a model get the same arguments; their GPUs come from fusioninfer-capacity.
- `--trust-remote-code` runs code from the model's repository. It is set if the recipe sets it.

"""
_DIFFERENCES = """\
For every model, the number of GPUs may differ from the recipe, because recipes only name the number
for the GPUs they were tested on. The container also has probes, resource requests and shared
memory. It does not use speculative decoding and text-only serving, which are optional in recipes.
"""
_OUTPUTS = """\
# Which values may be Outputs?

These fields, and parts of pod templates below, may be Outputs. All other values must be known when
the program runs, because the library checks a service before it registers resources.

| Class | Fields |
|---|---|
FIELDS

In the pod templates of roles and of endpoint pickers:

| May be an Output | Must be known |
|---|---|
PODS

Other Outputs are rejected (`output-not-allowed`, `output-in-command`). Instead, use a value from
`pulumi.Config`. If the Output is the name of another resource, give that resource a fixed name
(`metadata={"name": "team"}`) and use this name.

If the value of an Output in a pod template changes, LeaderWorkerSet restarts the replicas. Their
label `fusioninfer.io/revision`, a hash of the template without values of Outputs, stays the same.
Secrets are encrypted in the state; `plan`, `render` and `diff` print `<secret>`.
"""
_PODS = (
    ("`image`", "`name` of containers and environment variables; `containerPort`, `protocol`"),
    (
        "`value` of environment variables; names and keys in `valueFrom` and `envFrom`",
        "`resources`, which contain the number of GPUs",
    ),
    (
        "`command` and `args` of containers without an engine",
        "`command` and `args` of the engine",
    ),
    (
        "names in volumes and `imagePullSecrets`",
        "`schedulerName`, `priorityClassName`, `restartPolicy`",
    ),
    (
        "values of labels, annotations and `nodeSelector`; `serviceAccountName`",
        "lists and mappings as a whole, such as `env` or `spec`",
    ),
)
_ROOTS = ("ServiceSpec", "ManifestMetadata")
#: Sections of fields.md for models that have no section with their own name.
_ANCHORS = {"InferenceServiceArgs": "servicespec"}


def pages() -> dict[str, str]:
    """Return the text of each page by its name below `docs/reference`."""
    return {
        "fields.md": build_fields_page(),
        "pulumi-outputs.md": build_outputs_page(),
        "command-line.md": build_commands_page(),
        "model-catalogue.md": catalogue_page(),
    }


def catalogue_page() -> str:
    """Return the page of models whose arguments and GPUs presets know."""
    document = json.loads(_MODELS.read_text(encoding="utf-8"))
    models = document["models"]
    parts = [_CATALOGUE.replace("SOURCE", document["recipes"])]
    parts[0] = parts[0].replace("CHECKED", document["checked"]).replace("COUNT", str(len(models)))
    parts[0] = parts[0].replace("RELEASE", PRESETS[CATALOGUE_ENGINE].release)
    kinds = list(dict.fromkeys(kind for model in models for kind in model["accelerators"]))
    parts.append(f"| Model | Kind | {' | '.join(kinds)} | Arguments |")
    parts.append(f"|---|---|{'---|' * len(kinds)}---|")
    for model in models:
        gpu_cells = [_format_gpus(model["accelerators"].get(kind)) for kind in kinds]
        arguments = " ".join(model["arguments"])
        shown = f"`{arguments}`" if arguments else ""
        head = f"| `{model['name']}` | {model['kind']} |"
        parts.append(f"{head} {' | '.join(gpu_cells)} | {shown} |")
    parts.append("\n## Sources and differences\n")
    parts.append(_DIFFERENCES)
    parts.append(
        "| Model | Recipe and date | GPU memory by recipe (GB) | Quantized variants "
        "| Recipe parts not used |"
    )
    parts.append("|---|---|---|---|---|")
    for model in models:
        source = model["source"].partition("models/")[2]
        siblings = ", ".join(f"`{name}`" for name in model["siblings"])
        name = f"`{model['name']}`"
        cells = [name, source, str(model["memory"]), siblings, model["note"]]
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _format_gpus(layout: Mapping[str, Any] | None) -> str:
    if layout is None:
        return ""
    spread = " spread" if layout.get("expert") else ""
    return f"{layout['gpus']}{spread}{'*' if layout.get('auto') else ''}"


def build_fields_page() -> str:
    """Return the page with every field: its type, default and meaning."""
    definitions = manifest_schema()["$defs"]
    models, enums = [], []
    for name in _find_reachable(definitions):
        (enums if "enum" in definitions[name] else models).append(name)
    parts = [_render_model(name, definitions[name]) for name in models]
    parts += [_render_enum(name, definitions[name]) for name in sorted(enums)]
    return _FIELDS + "\n".join(parts)


def _find_reachable(definitions: Mapping[str, Any]) -> list[str]:
    """Return the names of all definitions in breadth-first order, starting with `_ROOTS`."""
    reached = list(_ROOTS)
    for name in reached:
        reached += dict.fromkeys(
            reference
            for reference in _find_references(definitions[name])
            if reference not in reached
        )
    return reached


def _find_references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _find_references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _find_references(item)


def _render_model(name: str, schema: Mapping[str, Any]) -> str:
    lines = [f"## {name}", "", _render_cell(schema.get("description", ""), breaks="\n\n"), ""]
    lines += ["| Field | Type | Default | Meaning |", "|---|---|---|---|"]
    required = set(schema.get("required", ()))
    for key, field in schema.get("properties", {}).items():
        default = "required" if key in required else _render_default(field.get("default"))
        description = _render_cell(field.get("description", ""))
        lines.append(f"| `{key}` | {_render_type(field)} | {default} | {description} |")
    return "\n".join(lines) + "\n"


def _render_enum(name: str, schema: Mapping[str, Any]) -> str:
    values = ", ".join(f"`{value}`" for value in schema["enum"])
    return f"## {name}\n\n{_render_cell(schema.get('description', ''))}\n\nOne of {values}.\n"


def _render_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_render_type(choice) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_render_type(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(_render_default(value) for value in schema["enum"])
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _render_default(value: Any) -> str:
    if value is None or value in ([], {}):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _render_cell(text: str, breaks: str = " ") -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return breaks.join(paragraphs).replace("|", "\\|")


def build_outputs_page() -> str:
    """Return the page with every field that accepts an Output."""
    rows = [
        f"| [{name}](fields.md#{_ANCHORS.get(name, name.lower())}) "
        f"| {', '.join(f'`{field}`' for field in fields)} |"
        for name, schema in fields_schema(InferenceServiceArgs).items()
        if (fields := [key for key, sub in schema.get("properties", {}).items() if _is_marked(sub)])
    ]
    pods = [f"| {output} | {known} |" for output, known in _PODS]
    return _OUTPUTS.replace("FIELDS", "\n".join(rows)).replace("PODS", "\n".join(pods))


def _is_marked(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return OUTPUT_MARK in schema or any(map(_is_marked, schema.values()))
    return isinstance(schema, list) and any(map(_is_marked, schema))


def build_commands_page() -> str:
    """Return the page with every command and its options, the common options first."""
    parser = build_parser()
    (commands,) = (
        action for action in parser._actions  # noqa: SLF001  # argparse has no public way
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001  # likewise
    )  # fmt: skip
    rows = {name: _list_arguments(command) for name, command in commands.choices.items()}
    commands_by_row = {
        row: [name for name, of_command in rows.items() if row in of_command]
        for row in dict.fromkeys(chain.from_iterable(rows.values()))
    }
    common: dict[str, list[tuple[str, str]]] = {}
    for row, names in commands_by_row.items():
        if len(names) >= _COMMON:
            common.setdefault(", ".join(f"`{name}`" for name in names), []).append(row)
    parts = ["## Common arguments\n"]
    for names_of_commands, shared in common.items():
        parts += [f"\nArguments of {names_of_commands}:\n", _render_arguments(shared)]
    for name, command in commands.choices.items():
        summary = (command.description or "").removeprefix(f"{name}: ")
        parts.append(f"\n## {name}\n\n{summary[:1].upper()}{summary[1:]}\n")
        if specific := [row for row in rows[name] if len(commands_by_row[row]) < _COMMON]:
            parts.append(_render_arguments(specific))
        if command.epilog:
            examples = textwrap.dedent(command.epilog.partition("\n")[2]).rstrip()
            parts.append(f"\n```text\n{examples}\n```\n")
    return _COMMANDS + "".join(parts)


#: An argument with the same meaning in at least this number of commands is listed once.
_COMMON = 4


def _list_arguments(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Return each argument as `--help` shows it, and its meaning."""
    formatter = argparse.HelpFormatter("")
    rows = []
    for action in parser._actions:  # noqa: SLF001  # argparse has no public way
        if action.dest != "help":
            shown = formatter._format_action_invocation(action)  # noqa: SLF001  # likewise
            meaning = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
            rows.append((shown, meaning))
    return rows


def _render_arguments(rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| `{shown}` | {_render_cell(meaning)} |" for shown, meaning in rows]
    return "\n".join(["\n| Argument | Meaning |", "|---|---|", *lines]) + "\n"
