"""Asks the service's endpoint whether it answers."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pulumi
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.settings import get_monitor

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.service_plan import ServicePlan

PATH = "/v1/models"

#: How long a name may stay unknown or an address silent before we say that it is not for us.
GRACE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 20.0
_MOST_BYTES = 1 << 20
_AWAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
_CREDENTIALS = (401, 403)

# Threads of our own: the SDK's registrations use those of the event loop.
_threads = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-endpoint")


class NotYetError(Exception):
    """The endpoint is there and does not serve; the text says what it does."""


class UnreachableError(Exception):
    """The endpoint cannot be reached from here; the text says why."""


class SilentError(Exception):
    """The endpoint did not answer in time."""


def ask(url: str) -> None:
    """Asks once.

    Args:
        url: The endpoint, without the path.

    Raises:
        NotYetError: It is there and does not serve.
        UnreachableError: It cannot be reached from here.
    """
    # No proxy: its own refusals could not be told from those of the endpoint.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    # The URL is that of the service's own endpoint, never a file's.
    request = urllib.request.Request(url + PATH, headers={"Accept": "application/json"})  # noqa: S310
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            told = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as refused:
        # Whoever asks for credentials is there.
        if refused.code not in _CREDENTIALS:
            raise NotYetError(f"HTTP status {refused.code}") from None
        return
    except urllib.error.URLError as problem:
        raise _reason(problem.reason) from None
    except (OSError, http.client.HTTPException) as problem:
        raise NotYetError(f"no answer: {problem!r}") from None
    except ValueError:
        raise NotYetError("its answer is not JSON") from None
    if not isinstance(told, dict) or not isinstance(told.get("data"), list):
        raise NotYetError("its answer is no list of models")


def _reason(problem: object) -> Exception:
    if isinstance(problem, socket.gaierror):
        return UnreachableError("its name is not known here")
    if isinstance(problem, ssl.SSLCertVerificationError):
        return UnreachableError(f"its certificate is not trusted here ({problem.verify_message})")
    if isinstance(problem, TimeoutError):
        return UnreachableError("its address does not respond from here")
    if isinstance(problem, OSError) and problem.errno in _AWAY:
        return UnreachableError(f"{problem.strerror}")
    return NotYetError(str(problem))


async def answered(
    url: str,
    seconds: float,
    *,
    look: Callable[[str], None] = ask,
    grace: float = GRACE_SECONDS,
    pause: float = _PAUSE_SECONDS,
) -> str | None:
    """Waits until an endpoint answers.

    Args:
        url: The endpoint.
        seconds: How long it may take.
        look: Asks once.
        grace: How long an endpoint may be out of reach; a name inside of a cluster (`.svc`) is
            known at once or never.
        pause: Time between two looks.

    Returns:
        None when it has answered, else why nothing can be said from here.

    Raises:
        SilentError: It can be reached and did not serve in time.
    """
    begun = time.monotonic()
    inside = (urlsplit(url).hostname or "").endswith(".svc")
    patience = 0.0 if inside else min(grace, seconds)
    seen: str | None = None
    while True:
        try:
            asked = asyncio.get_running_loop().run_in_executor(_threads, look, url)
            await asyncio.wait_for(asked, _LOOK_SECONDS)
        except NotYetError as problem:
            seen = str(problem)
        except (UnreachableError, asyncio.TimeoutError) as problem:
            if seen is None and time.monotonic() - begun >= patience:
                return str(problem) or "it takes too long to find out"
        else:
            return None
        if time.monotonic() - begun + pause > seconds:
            if seen is None:
                return "it did not come within reach in time"
            raise SilentError(seen)
        await asyncio.sleep(pause)


def confirm(
    component: pulumi.Resource,
    plan: ServicePlan,
    endpoint: pulumi.Output[str],
    last: Callable[[], pulumi.Output[bool]],
) -> None:
    """Asks the endpoint, after all that is awaited, and fails the program if it does not serve.

    A preview, files, and a program without an engine (the command line, tests with mocks) ask
    nothing. No resource and no output depends on it.

    Args:
        component: The service's component, for messages.
        plan: The service.
        endpoint: Its endpoint.
        last: Makes what is known when everything that is awaited is there; false where files are
            written.
    """
    if plan.wait.level is not WaitLevel.SERVING or pulumi.runtime.is_dry_run() or not _on_engine():
        return

    async def asked(seen: list[Any]) -> bool:
        url, awaited = seen
        if not awaited:
            return False
        if not url:
            _note(component, "nobody knows its address here")
            return False
        try:
            why = await answered(url, float(durations.seconds(plan.wait.timeout) or 0))
        except SilentError as problem:
            raise pulumi.RunError(
                f"{plan.service}: {url}{PATH} did not answer within {plan.wait.timeout}: {problem}"
            ) from None
        if why is not None:
            _note(component, f"{url}: {why}")
        return why is None

    both: Any = pulumi.Output.all(endpoint, last())
    both.apply(asked)


def _on_engine() -> bool:
    return collect_plans.get() is None and not isinstance(get_monitor(), MockMonitor)


def _note(component: pulumi.Resource, why: str) -> None:
    pulumi.log.info(f"whether the endpoint answers was not checked: {why}", component)
