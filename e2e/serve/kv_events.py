"""Prints what an engine publishes of its KV cache; run by the Python of an engine.

Arguments: an endpoint of ZeroMQ. It prints a line in JSON for each message: its topic, the kinds of
its events, and how many blocks they name. The first line is empty: from then on it listens. It
fails when nothing comes for a minute.
"""

from __future__ import annotations

import json
import sys

import msgspec
import zmq

PATIENCE = 60_000
"""Milliseconds."""


def main(endpoint: str) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    monitor.setsockopt(zmq.RCVTIMEO, PATIENCE)
    socket.setsockopt(zmq.RCVTIMEO, PATIENCE)
    socket.connect(endpoint)
    monitor.recv_multipart()
    print(flush=True)
    while True:
        topic, _, payload = socket.recv_multipart()
        _, events, *_ = msgspec.msgpack.decode(payload)
        output = {"topic": topic.decode(), "events": [event["type"] for event in events],
                "blocks": sum(len(event.get("block_hashes", ())) for event in events)}  # fmt: skip
        print(json.dumps(output), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
