"""Probes the service's endpoint at the end of an update (`wait.level: Serving`)."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.cluster_access import THREADS
from fusioninfer_pulumi.component.pulumi_sdk import has_pulumi_engine
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PATH = "/v1/models"

#: Time after which an unresolved name or a silent address counts as unreachable.
GRACE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_RESPONSE_SECONDS = 5.0
_PROBE_SECONDS = 20.0
_MAX_BYTES = 1 << 20
_UNREACHABLE = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EADDRNOTAVAIL,
    errno.EACCES,
    errno.EPERM,
}
_CREDENTIALS_REQUIRED = (401, 403)


class NotReadyError(Exception):
    """The endpoint is reachable but does not serve; the text says how it responds."""


class UnreachableError(Exception):
    """The program cannot reach the endpoint; the text says why."""


def probe(url: str) -> None:
    """Send one request to the endpoint.

    Raises NotReadyError if it is reachable but does not serve, UnreachableError if it is not
    reachable.
    """
    # Imported here, because only an update with wait.level Serving needs these.
    import http.client  # noqa: PLC0415
    import ssl  # noqa: PLC0415
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    # No proxy, because its errors would look like errors of the endpoint.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    # The URL is the service's endpoint, never a file.
    request = urllib.request.Request(url + PATH, headers={"Accept": "application/json"})  # noqa: S310
    try:
        with opener.open(request, timeout=_RESPONSE_SECONDS) as response:
            body = json.loads(response.read(_MAX_BYTES))
    except urllib.error.HTTPError as exc:
        # An endpoint that rejects the request because it lacks credentials is ready.
        if exc.code not in _CREDENTIALS_REQUIRED:
            raise NotReadyError(f"HTTP status {exc.code}") from None
        return
    except (OSError, http.client.HTTPException) as exc:
        # Only connection errors have a `reason`; other errors mean that the endpoint was reached.
        reason: Any = getattr(exc, "reason", None)
        unreachable = (socket.gaierror, ssl.SSLCertVerificationError, TimeoutError)
        if isinstance(reason, unreachable) or getattr(reason, "errno", None) in _UNREACHABLE:
            raise UnreachableError(str(reason)) from None
        raise NotReadyError(str(reason or f"no response: {exc!r}")) from None
    except ValueError:
        raise NotReadyError("the response is not JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("data"), list):
        raise NotReadyError("the response is not a list of models")


async def wait_until_ready(
    url: str,
    seconds: float,
    *,
    send: Callable[[str], None] = probe,
    grace: float = GRACE_SECONDS,
    pause: float = _PAUSE_SECONDS,
) -> None:
    """Wait until an endpoint serves.

    Raises UnreachableError if the endpoint cannot be reached for `grace` seconds, or immediately if
    its name is cluster-internal (`.svc`). Raises NotReadyError if it is reachable but does not
    serve within `seconds`.
    """
    started = time.monotonic()
    if (urlsplit(url).hostname or "").endswith(".svc"):
        grace = 0.0
    last_error: NotReadyError | None = None
    while True:
        try:
            request = asyncio.get_running_loop().run_in_executor(THREADS, send, url)
            await asyncio.wait_for(request, _PROBE_SECONDS)
        except NotReadyError as exc:
            last_error = exc
        except (UnreachableError, asyncio.TimeoutError) as exc:
            if last_error is None and time.monotonic() - started >= min(grace, seconds):
                raise UnreachableError(str(exc) or "no response") from None
        else:
            return
        if time.monotonic() - started + pause > seconds:
            raise last_error or UnreachableError("not reachable before the timeout")
        await asyncio.sleep(pause)


def probe_endpoint(
    component: pulumi.Resource,
    plan: ServicePlan,
    endpoint: pulumi.Output[str],
    get_deadline: Callable[[], pulumi.Output[float | None]],
) -> None:
    """Probe the endpoint at the end of an update, and fail if it is reachable but does not serve.

    Does nothing in previews, if the provider only renders YAML, or if the Pulumi engine does not
    run the program. No resource or output depends on the result. `get_deadline` is
    `Children.get_deadline`.
    """
    if (
        plan.wait.level is not WaitLevel.SERVING
        or pulumi.runtime.is_dry_run()
        or not has_pulumi_engine()
    ):
        return

    async def probe_url(url_and_deadline: list[Any]) -> bool:
        url, deadline = url_and_deadline
        if deadline is None:
            return False
        reason = "its address is not known to the program"
        try:
            if url:
                await wait_until_ready(url, max(0.0, deadline - time.monotonic()))
                return True
        except NotReadyError as exc:
            raise pulumi.RunError(
                f"{plan.service}: {url}{PATH} is not ready after {plan.wait.timeout} "
                f"(wait.timeout): {exc}"
            ) from None
        except UnreachableError as exc:
            reason = f"{url}: {exc}"
        pulumi.log.info(f"the endpoint was not checked: {reason}", component)
        return False

    url_and_deadline: Any = pulumi.Output.all(endpoint, get_deadline())
    url_and_deadline.apply(probe_url)
