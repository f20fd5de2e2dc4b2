"""Secrets of docs/how-to/secrets.md never appear in plain text."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from e2e.engine.services import Stack
from tests.page_blocks import ROOT, blocks

#: Secret values by configuration key of the page.
SECRETS = {
    "hubToken": "hf_t0ken-of-the-hub",
    "registry": json.dumps({"auths": {"registry.example": {"auth": "cmVnaXN0cnktcGFzc3dvcmQ"}}}),
    "tlsKey": "k3y-of-the-gateway",
}
#: Parts of the values, and of their base64 form, that must not appear.
PLAIN = ("t0ken-of-the-hub", "cmVnaXN0cnktcGFzc3dvcmQ", "k3y-of-the-gateway")


def find_leaks(text: str) -> list[str]:
    """Return the secrets in a text, including base64-encoded ones."""
    encoded = {
        base64.b64encode(f"{' ' * shift}{part}".encode()).decode()[4:-4]
        for part in PLAIN
        for shift in range(3)
    }
    return [part for part in (*PLAIN, *encoded) if part in text]


@pytest.mark.verifies(
    "Tokens, registry credentials and TLS keys appear in plain text in no state, diff, log or event"
)
def test_secrets_of_page_do_not_leak(stack: Stack, tmp_path: Path) -> None:
    stack.cluster.add_nodes(1)
    (program,) = [
        block.text
        for block in blocks(ROOT / "docs" / "how-to" / "secrets.md")
        if block.title == "__main__.py"
    ]
    changes = {
        'NAMESPACE = "models"': f"NAMESPACE = {stack.namespace!r}",
        # No gateway runs here.
        '"roles": [': '"wait": {"level": "None"}, "roles": [',
    }
    for old, new in changes.items():
        assert program.count(old) == 1
        program = program.replace(old, new)
    stack.program = program
    stack.environment["PULUMI_DEBUG_COMMANDS"] = "true"  # for --event-log
    stack.run("config", "set", "tlsCert", "certificate").assert_succeeded()
    texts: dict[tuple[str, ...], str] = {}
    lws: list[dict[str, str]] = []
    for suffix in ("", "2"):
        for key, value in SECRETS.items():
            changed = value + suffix * (key != "registry")
            stack.run("config", "set", key, changed, "--secret").assert_succeeded()
        events = tmp_path / f"events{suffix}"
        for words in (
            ("up", "--yes", "--diff", "--debug", "--event-log", str(events)),
            ("stack", "export"),
            ("stack", "history", "--json"),
            ("preview", "--json"),
        ):
            command = (suffix, *words[:2])
            texts[command] = stack.run(*words).assert_succeeded().text
        lws.append(stack.list_lws_uids())
        texts[suffix, "events"] = events.read_text(encoding="utf-8")
    for path in (path for path in stack.state.rglob("*") if path.is_file()):
        texts["state", path.name] = path.read_bytes().decode(errors="replace")
    assert {key: find_leaks(text) for key, text in texts.items() if find_leaks(text)} == {}
    (hub,) = [
        item
        for item in stack.cluster.list("v1/Secret", stack.namespace)
        if item["metadata"]["name"] == "hub"
    ]
    # The update changed the Secret, so the texts above include a change.
    assert base64.b64decode(hub["data"]["token"]).decode() == SECRETS["hubToken"] + "2"
    # A Secret with the same name replaces no other object.
    assert lws[0] == lws[1] != {}
    assert find_leaks(base64.b64decode(hub["data"]["token"]).decode())
    workloads = list(stack.lws().values()) + stack.cluster.pods(stack.namespace)
    assert not find_leaks(json.dumps(workloads))
    stack.down().assert_succeeded()
