"""A service with one wrong value is rejected with our own message, or it renders."""

from __future__ import annotations

from full_pods import SERVICES
from hypothesis import given, strategies as st
from mutations import mutants
from profiles import examples
from rows import each_row
from samples import Manifest, is_plain_data, rendered

from fusioninfer_pulumi.findings import InvalidServiceError

#: Terms of pydantic that no message may contain.
_PYDANTIC = ("Input should", "function-", "constrained-", "[dict[", "Value error")


@each_row("name", SERVICES)
def test_services_of_full_pods_are_valid(name: str) -> None:
    assert rendered(SERVICES[name])


@given(service=st.sampled_from(list(SERVICES.values())).flatmap(mutants))
@examples(3)
def test_typo_is_rejected_with_a_readable_error_or_renders(service: Manifest) -> None:
    assert_one_line_errors(expected := rejection(service))
    assert expected or is_plain_data(list(rendered(service)))


def rejection(service: Manifest) -> InvalidServiceError | None:
    try:
        rendered(service)
    except InvalidServiceError as rejected:
        return rejected
    return None


def assert_one_line_errors(rejected: InvalidServiceError | None) -> None:
    lines = [] if rejected is None else str(rejected).splitlines()
    assert rejected is None or len(lines) == len(rejected.findings)
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if any(word in line for word in _PYDANTIC)]
