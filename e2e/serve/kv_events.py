"""Print KV cache events of an engine; runs with the engine's Python.

The argument is a ZeroMQ endpoint. After an empty line when it is connected, it prints a JSON line
for each message: topic, types of events and number of blocks. It fails after a minute without
messages.
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
