"""Data flows one way between the rooms."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "fusioninfer_pulumi"
FILES = sorted(PACKAGE.rglob("*.py"))

#: The packages in their order: each imports those above it, and itself.
ORDER = (
    "kube", "findings", "api", "engines", "pickers", "dialects", "pods", "topology", "routing",
    "operations", "service_plan", "rollout", "planning", "loading", "checked", "objects",
    "placement", "component", "cli", "__init__",
)  # fmt: skip
#: What still reaches down; to become empty.
PENDING = {
    "cli/arguments.py", "kube/containers.py", "kube/resources.py", "operations/autoscaling.py",
    "operations/operations.py", "pods/build.py", "pods/checks.py",
    "pods/device_claims.py", "pods/health.py", "pods/model_cache.py", "pods/pairing.py",
    "pods/role.py", "pods/scheduling.py", "pods/sidecar.py",
    "topology/layout_checks.py", "topology/leader_worker_set.py", "topology/name_checks.py",
}  # fmt: skip


#: Rooms whose business is Pulumi.
PULUMI = {"component", "cli/program"}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, at its top or inside of functions."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def roots(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imports(path)}


def rooms_of(path: Path) -> set[str]:
    found = set()
    for module in imports(path):
        root, _, rest = module.partition(".")
        if root == "fusioninfer_pulumi":
            first = rest.partition(".")[0]
            known = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
            found.add(first if known else "__init__")
    return found


def offenders(excess: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """What is too much in each file, for files in which something is."""
    return {name(path): found for path in FILES if (found := excess(path))}


def test_the_files_are_looked_at() -> None:
    assert len(FILES) > 200
    assert {room(path) for path in FILES} >= {"api", "pods", "topology", "component", "cli"}


def test_a_room_imports_only_earlier_rooms() -> None:
    def excess(path: Path) -> set[str]:
        # The recorder of programs is handed the plans by the components.
        more = {"component"} if name(path).startswith("cli/program/") else set()
        if name(path) in PENDING:
            return set()
        above = ORDER[: ORDER.index(room(path)) + 1]
        return rooms_of(path) - set(above) - more

    assert offenders(excess) == {}


def test_only_the_rooms_that_are_about_pulumi_import_it() -> None:
    def excess(path: Path) -> set[str]:
        at_home = any(name(path).startswith(f"{home}/") for home in PULUMI)
        # The import of pulumi_kubernetes costs seconds; nothing needs it.
        forbidden = set() if at_home else {"pulumi", "google", "grpc"}
        return roots(path) & {"pulumi_kubernetes", *forbidden}

    assert offenders(excess) == {}


def test_models_and_validation_stay_in_the_spec_and_the_dialects() -> None:
    def excess(path: Path) -> set[str]:
        at_home = room(path) in ("api", "dialects", "loading")
        return set() if at_home else roots(path) & {"pydantic", "pydantic_core"}

    assert offenders(excess) == {}


def test_files_say_what_they_are_for() -> None:
    assert [name(path) for path in FILES if not ast.get_docstring(tree(path))] == []


DIALECTS = {each.name for each in (PACKAGE / "dialects").iterdir() if each.is_dir()}


def test_a_dialect_knows_no_other_dialect() -> None:
    def excess(path: Path) -> set[str]:
        home = path.relative_to(PACKAGE).parts
        if home[0] != "dialects" or len(home) <= 2:
            return set()
        parts = [module.split(".") for module in imports(path)]
        known = {each[2] for each in parts if each[:2] == ["fusioninfer_pulumi", "dialects"]}
        return known & (DIALECTS - {home[1]})

    assert offenders(excess) == {}
