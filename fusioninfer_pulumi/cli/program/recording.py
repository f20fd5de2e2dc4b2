"""The result of running a program, and masks for its secrets.

Must not import Pulumi, because all commands import this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.loading.documents import LoadedDocument

#: Printed in place of a secret value.
SECRET = "<secret>"  # noqa: S105  # the mask, not a password

# Users' texts do not look like marks: Kubernetes names and YAML contain no control characters.
_MARK = re.compile(r"<secret\0[0-9a-f]{64}>")


class Recording(NamedTuple):
    """The result of one run of a program.

    Attributes:
        findings: Errors, or warnings without duplicates: unknown values, messages of the program.
        objects: The Kubernetes objects in the order in which the program constructed them. Each has
            `apiVersion`, `kind` and `metadata` (always a mapping), then its other fields. All other
            keys are in alphabetical order, because the SDK passes properties as a protobuf map,
            which has no order. Secrets are marked (`mark_secret`), so that they can be compared.
        services: The InferenceService components in the order of their construction: plan, line
            and file (relative to the project if it is inside, or empty if unknown).
        encrypted: The stack's config values with ciphertexts, by key.
    """

    findings: tuple[Finding, ...]
    objects: tuple[dict[str, Any], ...] = ()
    services: tuple[LoadedDocument, ...] = ()
    encrypted: Mapping[str, Any] = {}


def mark_secret(value: Any) -> str:
    """Return `<secret>` with a hash of the value in it, so that marks of other values differ."""
    return f"<secret\0{hashlib.sha256(repr(value).encode()).hexdigest()}>"


def remove_marks(value: Any) -> Any:
    """Return a copy of plain values and named tuples with `<secret>` instead of marked secrets."""
    if isinstance(value, str):
        return _MARK.sub(SECRET, value) if "\0" in value else value
    if isinstance(value, Mapping):
        return {remove_marks(key): remove_marks(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [remove_marks(item) for item in value]
        # The constructor of a named tuple has one parameter for each item.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with its secrets masked; the longest first, as they may contain others."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, SECRET)
    return text
