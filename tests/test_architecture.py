"""Data flows one way between the rooms; files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "fusioninfer_pulumi"
FILES = sorted(PACKAGE.rglob("*.py"))

LEAVES = {
    "durations", "kubernetes_api", "names", "labels", "findings", "outputs", "quantity",
    "typed_args", "engines", "pickers",
}  # fmt: skip
#: What each room may import of this package. Leaves may import leaves.
ALLOWED = {
    **dict.fromkeys(LEAVES, LEAVES),
    "spec": {"spec", *LEAVES},
    "plan": {"plan", "spec", *LEAVES},
    "placement": {"placement", "plan", "reading", "spec", *LEAVES},
    "manifests": {"manifests", "plan", "spec", *LEAVES},
    "component": {"component", "manifests", "plan", "spec", *LEAVES},
    # Other systems' manifests: nothing but the reader knows that they exist.
    "dialects": {"dialects", "spec", *LEAVES},
    "reading": {"reading", "dialects", "spec", *LEAVES},
    "cli": {"cli", "manifests", "placement", "plan", "reading", "spec", "__init__", *LEAVES},
    "__init__": {"component", "manifests", "placement", "plan", "reading", "spec", "findings"},
}
#: Rooms whose business is Pulumi.
PULUMI = {"component", "cli/program"}
SIZE = 300


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside of functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path: Path) -> set[str]:
    found = set()
    for module in imports(path):
        root, _, rest = module.partition(".")
        if root == "fusioninfer_pulumi":
            first = rest.partition(".")[0]
            known = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
            found.add(first if known else "__init__")
    return found


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_room_imports_only_earlier_rooms(path: Path) -> None:
    # The recorder of programs is handed the plans by the components.
    more = {"component"} if name(path).startswith("cli/program/") else set()
    assert rooms_of(path) <= ALLOWED[room(path)] | more


@pytest.mark.parametrize("path", FILES, ids=name)
def test_only_the_rooms_that_are_about_pulumi_import_it(path: Path) -> None:
    roots = {module.split(".")[0] for module in imports(path)}
    if not any(name(path).startswith(f"{home}/") for home in PULUMI):
        assert not roots & {"pulumi", "pulumi_kubernetes", "google", "grpc"}
    assert "pulumi_kubernetes" not in roots, "its import costs seconds; nothing needs it"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_models_and_validation_stay_in_the_spec_and_the_dialects(path: Path) -> None:
    roots = {module.split(".")[0] for module in imports(path)}
    assert room(path) in ("spec", "dialects") or not roots & {"pydantic", "pydantic_core"}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= SIZE


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_say_what_they_are_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


DIALECTS = sorted(each.name for each in (PACKAGE / "dialects").iterdir() if each.is_dir())


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_dialect_knows_no_other_dialect(path: Path) -> None:
    home = path.relative_to(PACKAGE).parts
    if home[0] == "dialects" and len(home) > 2:
        others = {each for each in DIALECTS if each not in (home[1], "__pycache__")}
        parts = [module.split(".") for module in imports(path)]
        assert not {each[2] for each in parts if each[:2] == ["fusioninfer_pulumi", "dialects"]} & (
            others
        )
