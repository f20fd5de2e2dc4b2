"""The conditions of a ModelRoute's rules as matches of an HTTPRoute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.kthena.routing_models import (
    ModelMatch,
    ModelRouteSpec,
    StringMatch,
)

#: An end that is settled: `$` or `.*`, unless a backslash takes its meaning away.
_ENDS = re.compile(r"(?<!\\)(?:\\\\)*(?:\$|\.\*)\Z")
#: Set from the body's `model` by body-based routing (gateway-api-inference-extension, pkg/bbr).
MODEL_HEADER = "X-Gateway-Model-Name"


def matches(
    book: Book, spec: ModelRouteSpec, match: ModelMatch, at: At
) -> Iterator[dict[str, Any]]:
    """Yields a match for each model that a rule is about.

    Args:
        book: The book of the documents.
        spec: The spec of the ModelRoute.
        match: The rule's conditions.
        at: Where they stand.
    """
    names = models_of(spec)
    asked = match.body.model if match.body is not None else None
    if asked is not None:
        book.read(at / "body" / "model")
        if asked not in names:
            book.refuse(
                at / "body" / "model", f"is none of the route's models ({', '.join(names)})"
            )
        names = [asked]
    headers = []
    for name, condition in (match.headers or {}).items():
        found = _condition(book, condition, at / "headers" / name)
        if found is not None:
            kind, value = found
            headers.append({"name": name, "type": kind, "value": value})
    path = _path(book, match.uri, at / "uri") if match.uri is not None else None
    for name in names:
        own = {"name": MODEL_HEADER, "value": name}
        yield {"path": path, "headers": [own, *headers]}


def _condition(book: Book, match: StringMatch, at: At) -> tuple[str, str] | None:
    """Type and value of a header's match."""
    given = _one(book, match, at)
    if given is None:
        return None
    kind, value = given
    if kind == "exact":
        return "Exact", value
    return "RegularExpression", anywhere(value) if kind == "regex" else f"{re.escape(value)}.*"


def _path(book: Book, match: StringMatch, at: At) -> dict[str, str] | None:
    given = _one(book, match, at)
    if given is None:
        return None
    kind, value = given
    if kind == "exact":
        return {"type": "Exact", "value": value}
    if kind == "regex":
        return {"type": "RegularExpression", "value": anywhere(value)}
    if value.endswith("/"):
        return {"type": "PathPrefix", "value": value}
    # PathPrefix goes by whole segments: /v1 would not match /v1beta, which theirs does.
    return {"type": "RegularExpression", "value": f"{re.escape(value)}.*"}


def anywhere(pattern: str) -> str:
    """A regular expression for the whole text that holds where another one is found in it.

    Kthena searches (kthena-router/datastore, matchString); Envoy and what is built on it match
    the whole text.

    Args:
        pattern: What is searched for.

    Returns:
        The same between `.*`, without it on a side that the pattern settles itself.
    """
    # An anchor of one alternative says nothing about the others.
    several = "|" in pattern
    begins = not several and pattern.startswith(("^", ".*"))
    ends = not several and _ENDS.search(pattern) is not None
    if begins and ends:
        return pattern
    return f"{'' if begins else '.*'}(?:{pattern}){'' if ends else '.*'}"


def _one(book: Book, match: StringMatch, at: At) -> tuple[str, str] | None:
    given = [(kind, value) for kind, value in match if value is not None]
    book.read(at)
    if len(given) != 1:
        book.refuse(at, "needs one of exact, prefix and regex")
        return None
    kind, value = given[0]
    if kind == "prefix":
        book.note(at, "regular expressions are the gateway's own dialect")
    elif kind == "regex":
        book.note(
            at,
            "Kthena looks for it anywhere in the text, gateways hold it against the whole, in a "
            f"dialect of their own: written as {anywhere(str(value))}",
        )
    return kind, str(value)


def models_of(spec: ModelRouteSpec) -> list[str]:
    """The names by which a route's requests ask for a model."""
    return [each for each in (spec.model_name, *(spec.lora_adapters or ())) if each]


def asked_models(spec: ModelRouteSpec, match: ModelMatch) -> list[str]:
    """The models of a route that a rule is about."""
    asked = match.body.model if match.body is not None else None
    return models_of(spec) if asked is None else [asked]
