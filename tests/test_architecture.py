"""Packages import only earlier packages, and only `engines` branches on an engine's name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from package_code import FILES, PACKAGE, name, nodes, tree

from fusioninfer_pulumi.engines.engine_commands import ENGINES

#: Layers and their packages, both in order: a package imports only itself and earlier packages.
LAYERS = {
    "kube": ("generated", "extras", "kube", "findings", "rules", "schemas"),
    "api": ("api",),
    "engines": ("engines", "endpoint_pickers"),
    "build": ("pods", "topology", "routing", "operations"),
    "plan": ("plan", "rollout", "capacity_package", "presets"),
    "checks": ("checks",),
    "loading": ("loading",),
    "component": ("component", "provider"),
    "cli": ("cli",),
    "plugins": ("plugins", "__main__", "__init__"),
}
ORDER = tuple(package for packages in LAYERS.values() for package in packages)
#: The packages that may import Pulumi.
PULUMI = {"component", "provider", "cli/program"}
#: Types of the mappings that constructors accept, generated from the models of `api`.
DICTS = "generated/dicts.py"


def package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> frozenset[str]:
    """Return every module that a file imports, at its top or in functions."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def roots(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imports(path)}


def packages_of(path: Path) -> set[str]:
    result = set()
    for module in imports(path):
        root, _, rest = module.partition(".")
        if root == "fusioninfer_pulumi":
            first = rest.partition(".")[0]
            known = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
            result.add(first if known else "__init__")
    return result


def offenders(violations: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """Return the files with violations."""
    return {name(path): modules for path in FILES if (modules := violations(path))}


def is_private_elsewhere(path: Path, module: str) -> bool:
    """Whether a module is private to a package that does not contain the file."""
    owner, private, _ = module.removeprefix("fusioninfer_pulumi.").partition("._")
    inside = PACKAGE.joinpath(*owner.split("."))
    return bool(private) and module.startswith("fusioninfer_pulumi.") and inside not in path.parents


def test_private_modules_are_imported_only_in_their_package() -> None:
    assert is_private_elsewhere(
        PACKAGE / "pods/build.py", "fusioninfer_pulumi.engines._shell_words.join"
    )
    assert not is_private_elsewhere(
        PACKAGE / "engines/vllm.py", "fusioninfer_pulumi.engines._shell_words.join"
    )
    assert not offenders(lambda path: {m for m in imports(path) if is_private_elsewhere(path, m)})


def test_source_files_are_found() -> None:
    assert len(FILES) > 150
    assert {package(path) for path in FILES} >= {"api", "pods", "topology", "component", "cli"}


def test_package_imports_only_earlier_packages() -> None:
    def violations(path: Path) -> set[str]:
        # The program runner collects the plans that components create.
        more = {"component"} if name(path).startswith("cli/program/") else set()
        if package(path) == "provider" or name(path) in ("cli/main.py", "cli/new_project.py"):
            more = {"__init__"}  # the version of the package
        if name(path) == DICTS:
            more = {"api"}  # for type checkers alone
        above = ORDER[: ORDER.index(package(path)) + 1]
        return packages_of(path) - set(above) - more

    assert offenders(violations) == {}


def test_architecture_page_lists_layers_and_packages_in_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    first, _, table = page.partition("| Layer |")
    assert f"```text\n{' ─ '.join(LAYERS)}\n" in first
    listed = re.findall(r"^\| (?:`(\w+)` )?\| `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)
    assert [layer for layer, _ in listed if layer] == list(LAYERS)
    assert [package for _, package in listed] == [
        package for package in ORDER if not package.startswith("__")
    ]


def test_imports_have_no_cycles() -> None:
    modules = {".".join(path.with_suffix("").parts[len(PACKAGE.parent.parts) :]) for path in FILES}
    waiting = {
        ".".join(path.with_suffix("").parts[len(PACKAGE.parent.parts) :]): needed(path) & modules
        for path in FILES
    }
    while free := {module for module, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {key: needs for key, needs in waiting.items() if key not in free}
    assert waiting == {}


def needed(path: Path) -> set[str]:
    """Return the modules that a file imports outside of functions."""
    lazy = {
        inner
        for node in nodes(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    return {
        module
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node not in lazy and node.module
        for alias in node.names
        for module in (node.module, f"{node.module}.{alias.name}")
    }


def test_only_component_provider_and_the_program_runner_import_pulumi() -> None:
    def violations(path: Path) -> set[str]:
        if name(path) == DICTS:
            return set()  # for type checkers alone
        allowed = any(name(path).startswith(f"{home}/") for home in PULUMI)
        # Importing pulumi_kubernetes takes seconds, and nothing needs it.
        forbidden = set() if allowed else {"pulumi", "google", "grpc"}
        return roots(path) & {"pulumi_kubernetes", *forbidden}

    assert offenders(violations) == {}


def test_models_and_validation_stay_in_api_and_loading() -> None:
    def violations(path: Path) -> set[str]:
        allowed = package(path) in ("api", "loading")
        return set() if allowed else roots(path) & {"pydantic", "pydantic_core"}

    assert offenders(violations) == {}


def test_modules_have_docstrings() -> None:
    assert [name(path) for path in FILES if not ast.get_docstring(tree(path))] == []


ENGINE_NAMES = {engine.name for engine in ENGINES.values()}


def test_only_engines_branches_on_the_name_of_an_engine() -> None:
    def names_compared(node: ast.AST) -> set[str]:
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        inside = [item for part in parts for item in ast.walk(part)]
        texts = {item.value for item in inside if isinstance(item, ast.Constant)}
        return {text for text in texts if isinstance(text, str)} & ENGINE_NAMES

    def violations(path: Path) -> set[str]:
        if package(path) == "engines":
            return set()
        compared = {text for node in nodes(path) for text in names_compared(node)}
        modules = {f"fusioninfer_pulumi.engines.{name}" for name in ENGINE_NAMES}
        of_one = {item for item in imports(path) for module in modules if item.startswith(module)}
        return compared | of_one

    assert offenders(violations) == {}


def test_files_and_names_on_architecture_page_exist() -> None:
    root = PACKAGE.parent
    page = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:: ([\w`, ]+?))?`", page)
    assert len(named) > 30
    missing = []
    for file, names in named:
        if re.search(r"\b(X|NAME)\b", file):
            continue  # a placeholder in a recipe
        folders = (PACKAGE, root / "importers", root / "tools", root / "tests", root / "e2e")
        places = (path for folder in folders for path in folder.rglob(Path(file).name))
        texts = [path.read_text(encoding="utf-8") for path in places if path.match(f"*/{file}")]
        words = re.findall(r"\w+", names)
        if not any(all(re.search(rf"\b{word}\b", text) for word in words) for text in texts):
            missing.append((file, names))
    assert missing == []
