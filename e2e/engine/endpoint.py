"""Plays what a client reaches: answers `/v1/models` as a model server would, after a while."""

from __future__ import annotations

import json
import time

from e2e.harness.stand_ins import Answer, HttpStandIn, Request


class EndpointStandIn(HttpStandIn):
    """Listens on loopback; use it as a context manager."""

    def __init__(self, *, unready: float = 0.0) -> None:
        """Starts to listen."""
        super().__init__()
        self.asked: list[tuple[float, int]] = []
        self._unready = unready

    def answer(self, request: Request) -> Answer:
        now = time.monotonic()
        first = self.asked[0][0] if self.asked else now
        there = request.path == "/v1/models" and now - first >= self._unready
        answer = Answer(body=json.dumps({"object": "list", "data": []}).encode())
        answer = answer if there else Answer(503)
        self.asked.append((now, answer.status))
        return answer
