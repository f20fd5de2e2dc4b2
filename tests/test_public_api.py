"""The public names: every model and enum of the API, and those of version 0.1.0."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from json_schema import fields_schema
from profiles import slow_unless

import fusioninfer_pulumi
import fusioninfer_pulumi.api
from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs

FIXTURES = Path(__file__).parent / "fixtures"
#: Those of version 0.1.0; programs depend on them.
RELEASED = (FIXTURES / "public-names-0.1.0.txt").read_text(encoding="utf-8").split()


NAMES: list[str] = fusioninfer_pulumi.__all__


@cache
def models() -> dict[str, Any]:
    """Return the schema of each model and enum by its name."""
    return fields_schema(InferenceServiceArgs, InventoryArgs)


def test_every_model_and_enum_of_the_api_is_public() -> None:
    assert set(fusioninfer_pulumi.api.public_types()) == set(models())
    assert set(models()) <= set(NAMES)


def test_every_model_has_a_dictionary() -> None:
    dicts = {f"{name}Dict" for name, schema in models().items() if "properties" in schema}
    assert {name for name in NAMES if name.endswith("ArgsDict")} == dicts


def test_released_names_still_exist() -> None:
    assert set(RELEASED) <= set(NAMES)


def test_public_names_can_be_imported_and_have_docstrings() -> None:
    for name in NAMES:
        value = getattr(fusioninfer_pulumi, name)
        assert value.__name__ == name
        assert value.__doc__, name
        assert value.__module__.startswith(("fusioninfer_pulumi.", "fusioninfer_capacity.")), name
        assert name in dir(fusioninfer_pulumi)


def test_star_import_has_public_names() -> None:
    kept: dict[str, object] = {}
    exec("from fusioninfer_pulumi import *", kept)
    assert set(NAMES) <= set(kept)


def test_unknown_name_raises_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fusioninfer_pulumi.nothing  # noqa: B018 - to read it is what is tested


def test_package_is_typed() -> None:
    assert resources.files("fusioninfer_pulumi").joinpath("py.typed").is_file()


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, fusioninfer_pulumi\n"
        "assert not {'pulumi', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "fusioninfer_pulumi.RoleArgs\n"
        "assert 'pulumi' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "name", slow_unless("RoleArgs".__eq__, [name for name in NAMES if f"{name}Dict" in NAMES])
)
def test_help_shows_every_field_with_its_meaning(name: str) -> None:
    model = getattr(fusioninfer_pulumi, name)
    text = " ".join(pydoc.plain(pydoc.render_doc(model)).split())
    for field, kept in inspect.signature(model).parameters.items():
        assert kept.kind is inspect.Parameter.KEYWORD_ONLY
        schema = models()[name]["properties"][model.model_fields[field].alias or field]
        assert f"{field}: " in text or f"{field} (default " in text
        assert " ".join(schema["description"].split("\n")[0].split()) in text
