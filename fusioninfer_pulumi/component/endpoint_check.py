"""Probes the service's endpoint at the end of an update (`wait.level: Serving`)."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.sdk import has_engine
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PATH = "/v1/models"

#: How long a name may stay unknown or an address silent before it counts as out of reach.
GRACE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_RESPONSE_SECONDS = 5.0
_PROBE_SECONDS = 20.0
_MOST_BYTES = 1 << 20
_UNREACHABLE = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EADDRNOTAVAIL,
    errno.EACCES,
    errno.EPERM,
}
_CREDENTIALS = (401, 403)

# The SDK's registrations use the event loop's threads, so reads have their own.
_threads = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-endpoint")


class NotReadyError(Exception):
    """The endpoint is reachable and does not serve; the text says what it does."""


class UnreachableError(Exception):
    """The endpoint cannot be reached from here; the text says why."""


class NotReadyInTimeError(Exception):
    """The endpoint did not serve in time."""


def probe(url: str) -> None:
    """Sends one request to the endpoint.

    Raises NotReadyError where it is reachable and does not serve, else UnreachableError.
    """
    # Start-up time: only an update that waits for level Serving needs these.
    import http.client  # noqa: PLC0415
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    # No proxy: its own refusals could not be told from those of the endpoint.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    # The URL is that of the service's own endpoint, never a file's.
    request = urllib.request.Request(url + PATH, headers={"Accept": "application/json"})  # noqa: S310
    try:
        with opener.open(request, timeout=_RESPONSE_SECONDS) as answer:
            body = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as refused:
        # An endpoint that asks for credentials is there.
        if refused.code not in _CREDENTIALS:
            raise NotReadyError(f"HTTP status {refused.code}") from None
        return
    except urllib.error.URLError as problem:
        raise _connection_error(problem.reason) from None
    except (OSError, http.client.HTTPException) as problem:
        raise NotReadyError(f"no answer: {problem!r}") from None
    except ValueError:
        raise NotReadyError("its answer is not JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("data"), list):
        raise NotReadyError("its answer is no list of models")


async def wait_until_ready(
    url: str,
    seconds: float,
    *,
    send: Callable[[str], None] = probe,
    grace: float = GRACE_SECONDS,
    pause: float = _PAUSE_SECONDS,
) -> str | None:
    """Waits until an endpoint serves; returns why where it cannot be reached from here.

    It may be out of reach for `grace` seconds; a name inside of a cluster (`.svc`) is known at once
    or never. Raises NotReadyInTimeError where it is reachable and does not serve within `seconds`.
    """
    begun = time.monotonic()
    inside = (urlsplit(url).hostname or "").endswith(".svc")
    patience = 0.0 if inside else min(grace, seconds)
    state: str | None = None
    while True:
        try:
            probed = asyncio.get_running_loop().run_in_executor(_threads, send, url)
            await asyncio.wait_for(probed, _PROBE_SECONDS)
        except NotReadyError as problem:
            state = str(problem)
        except (UnreachableError, asyncio.TimeoutError) as problem:
            if state is None and time.monotonic() - begun >= patience:
                return str(problem) or "it takes too long to find out"
        else:
            return None
        if time.monotonic() - begun + pause > seconds:
            if state is None:
                return "it did not come within reach in time"
            raise NotReadyInTimeError(state)
        await asyncio.sleep(pause)


def probe_endpoint(
    component: pulumi.Resource,
    plan: ServicePlan,
    endpoint: pulumi.Output[str],
    deadline: Callable[[], pulumi.Output[float | None]],
) -> None:
    """Probes the endpoint after all that is awaited, and fails the program if it does not serve.

    Not in a preview, where files are written, or without Pulumi (the command line, tests with
    mocks). No resource and no output depends on it. `deadline` gives the update's deadline, known
    when everything that is awaited is there; None where files are written.
    """
    if plan.wait.level is not WaitLevel.SERVING or pulumi.runtime.is_dry_run() or not has_engine():
        return

    async def probed(state: list[Any]) -> bool:
        url, end = state
        if end is None:
            return False
        if not url:
            _log_unchecked(component, "its address is unknown here")
            return False
        try:
            why = await wait_until_ready(url, max(0.0, end - time.monotonic()))
        except NotReadyInTimeError as problem:
            raise pulumi.RunError(
                f"{plan.service}: {url}{PATH} is not ready after {plan.wait.timeout} "
                f"(wait.timeout): {problem}"
            ) from None
        if why is not None:
            _log_unchecked(component, f"{url}: {why}")
        return why is None

    both: Any = pulumi.Output.all(endpoint, deadline())
    both.apply(probed)


def _connection_error(problem: object) -> Exception:
    import ssl  # noqa: PLC0415  # start-up time, as in `probe`

    if isinstance(problem, socket.gaierror):
        return UnreachableError("its name is not known here")
    if isinstance(problem, ssl.SSLCertVerificationError):
        return UnreachableError(f"its certificate is not trusted here ({problem.verify_message})")
    if isinstance(problem, TimeoutError):
        return UnreachableError("its address does not respond from here")
    if isinstance(problem, OSError) and problem.errno in _UNREACHABLE:
        return UnreachableError(f"{problem.strerror}")
    return NotReadyError(str(problem))


def _log_unchecked(component: pulumi.Resource, why: str) -> None:
    pulumi.log.info(f"whether the endpoint answers was not checked: {why}", component)
