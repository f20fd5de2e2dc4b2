"""Finds and masks plain-text credentials in variables, arguments and other texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# Variables of model hubs and clouds, and usual endings of credential names.
_NAME = (
    r"(?:(?:HF|HUGGING_?FACE(?:_?HUB)?|GITHUB)(?:_HUB)?(?:_API)?_TOKEN"
    r"|MODELSCOPE_SDK_TOKEN|AWS_SESSION_TOKEN|AZURE_STORAGE_(?:KEY|SAS_TOKEN|CONNECTION_STRING)"
    r"|(?:\w+_)?(?:API|AUTH|ACCESS|BEARER)_TOKEN"
    r"|(?:\w+_)?(?:API|SECRET|SECRET_ACCESS|PRIVATE)_KEY"
    r"|(?:\w+_)?(?:PG)?(?:PASSWORD|PASSWD)|(?:\w+_)?(?:CLIENT_SECRET|AUTHORIZATION))"
)
_VARIABLE = re.compile(_NAME, re.IGNORECASE)
# Formats of credentials: Hugging Face, AWS, GitHub, NVIDIA, OpenAI, PEM.
_KNOWN_FORMAT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
# `scheme://user:PASSWORD@host` and `Authorization: Bearer TOKEN`.
_URL_PASSWORD = re.compile(
    r"""(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@'"]*:)(?P<value>[^\s/@'"$]+)(?=@)""", re.IGNORECASE
)
_AUTHORIZATION_HEADER = re.compile(
    r"""(?P<before>\bAuthorization["']?\s*[:=]\s*["']?(?:(?:Bearer|Basic|Token)\s+)?)"""
    r"""(?P<value>[^\s"'$,;]+)""",
    re.IGNORECASE,
)
_FLAGS = r"--(?:api-key|admin-api-key|hf-token)"
_FLAG = re.compile(rf"(?P<flag>{_FLAGS})(=(?P<value>.*))?", re.DOTALL)
_PEM = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL)
# `--api-key VALUE` and `HF_TOKEN=VALUE` in the text of a script.
_SCRIPT_CREDENTIAL = re.compile(
    rf"(?P<before>{_FLAGS}(?:=|\s+)|\b(?i:{_NAME})=)"
    r"""(?P<value>'[^'$]+'|"[^"$]+"|[^\s'"$;&|]+)"""
)


def is_credential(name: str, value: Any) -> bool:
    """Return whether a variable contains a credential, not a reference to another variable."""
    return _is_literal(value) and (bool(_VARIABLE.fullmatch(name)) or _has_credential(value))


def _has_credential(text: str) -> bool:
    return any(
        pattern.search(text) for pattern in (_KNOWN_FORMAT, _URL_PASSWORD, _AUTHORIZATION_HEADER)
    )


def find_credential_arguments(words: Sequence[Any]) -> list[tuple[int, str]]:
    """Return the index of each flag or word with a credential, and how messages refer to it."""
    arguments, flag_words = [], set[int]()
    for index, flag, value_index, _ in _find_credential_flags(words):
        arguments.append((index, flag))
        flag_words |= {index, value_index}
    for index, word in enumerate(words):
        if index in flag_words or not isinstance(word, str) or _FLAG.fullmatch(word):
            continue
        if _has_credential(word):
            arguments.append((index, "one of its words"))
    return sorted(arguments)


def _find_credential_flags(words: Sequence[Any]) -> Iterator[tuple[int, str, int, str]]:
    """Yield index and name of each flag with a credential, and the credential's index and text."""
    for index, word in enumerate(words):
        match = _FLAG.fullmatch(word) if isinstance(word, str) else None
        if match is None:
            continue
        value_index, value = index, match["value"]
        if value is None and index + 1 < len(words):
            value_index, value = index + 1, words[index + 1]
        if _is_literal(value):
            yield index, match["flag"], value_index, str(value)


def _is_literal(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "$" not in value


def mask_credentials(value: Any, mask: Callable[[str], str]) -> Any:
    """Return a copy of a manifest, or of a part, with `mask(text)` in place of each credential."""
    if isinstance(value, str):
        return _mask_text(value, mask)
    if isinstance(value, (list, tuple)):
        return [mask_credentials(item, mask) for item in value]
    if not isinstance(value, Mapping):
        return value
    copy = {key: mask_credentials(item, mask) for key, item in value.items()}
    if value.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if isinstance(value.get(key), Mapping):
                copy[key] = {name: mask(str(item)) for name, item in value[key].items()}
    if is_credential(str(value.get("name")), value.get("value")):
        copy["value"] = mask(value["value"])
    for key in ("command", "args"):
        if isinstance(value.get(key), (list, tuple)):
            for index, flag, value_index, credential in _find_credential_flags(value[key]):
                prefix = f"{flag}=" if value_index == index else ""
                copy[key][value_index] = prefix + mask(credential)
    return copy


def _mask_text(text: str, mask: Callable[[str], str]) -> str:
    text = _PEM.sub(lambda match: mask(match[0]), text)
    for pattern in (_URL_PASSWORD, _AUTHORIZATION_HEADER, _SCRIPT_CREDENTIAL):
        text = pattern.sub(lambda match: match["before"] + mask(match["value"]), text)
    return _KNOWN_FORMAT.sub(lambda match: mask(match[0]), text)
