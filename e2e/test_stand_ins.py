"""What stand-ins promise: they are gone after their `with`, and hide no error."""

from __future__ import annotations

import http.client

import pytest

from e2e.harness.stand_ins import Answer, HttpStandIn, Request, StandIn


class Echo(HttpStandIn):
    """Says what it was asked."""

    def answer(self, request: Request) -> Answer:
        """The request's own words."""
        return Answer(body=f"{request.method} {request.path} ".encode() + request.body)


def test_stand_in_answers_until_it_ends() -> None:
    with Echo() as echo:
        client = http.client.HTTPConnection("127.0.0.1", echo.port, timeout=5)
        for body in (b"one", b"two"):
            client.request("POST", "/said", body)
            assert client.getresponse().read() == b"POST /said " + body
    assert client.sock is not None
    assert client.sock.recv(1) == b"", "the connection is closed"
    client.close()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", echo.port).connect()


class Broken(StandIn):
    """Breaks at once."""

    def work(self) -> None:
        """Fail."""
        raise ValueError("broken")

    def stop(self) -> None:
        """Nothing works any more."""


def test_stand_in_raises_errors_of_its_thread() -> None:
    with pytest.raises(ValueError, match="broken"), Broken():
        pass
    with pytest.raises(KeyError, match="of the test"), Broken():
        raise KeyError("of the test")
