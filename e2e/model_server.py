"""A stand-in for a model server: it answers completions, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from e2e.harness.stand_ins import Answer, HttpStandIn, Request


class ModelServer(HttpStandIn):
    """One stand-in; use it as a context manager."""

    def __init__(self, address: str, port: int, answer: Mapping[str, Any]) -> None:
        super().__init__(address, port)
        self.requests: list[dict[str, Any]] = []
        self._added = answer

    def answer(self, request: Request) -> Answer:
        if request.method == "GET":
            return Answer(body=b"{}")
        self.requests.append(json.loads(request.body))
        completion = {"object": "text_completion", "choices": [], **self._added}
        return Answer(body=json.dumps(completion).encode())
