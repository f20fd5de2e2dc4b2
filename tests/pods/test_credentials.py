"""Literal credentials in templates are found by name and format."""

from __future__ import annotations

from typing import Any

from samples import container, role, service, template, warnings


def test_output_is_not_read_as_credential(output: Any) -> None:
    env = [{"name": "HF_TOKEN", "value": output("x", secret=True)}, {"name": "A", "value": "b"}]
    assert warnings(service(role(template=template(container(env=env))))) == []
