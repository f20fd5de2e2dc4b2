"""Run a command in a sandbox: `python -m e2e.serve.sandbox COMMAND ...`.

A sandbox has its own network, mount and process namespaces. Pod addresses, kube-proxy's rules and
mounts exist only inside. The kernel kills all processes inside when the first one exits. `Relay`
connects sockets that listen outside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.harness.processes import LOOPBACK
from e2e.serve import prerequisites

RUN_VARIABLE = "FUSIONINFER_E2E_SANDBOX"
"""Variable inside: name of the run."""

SOCKETS_VARIABLE = "FUSIONINFER_E2E_SOCKETS"
"""Variable inside: file descriptors of sockets that listen on the outer loopback device."""

ADDRESS = "10.90.0.1"
"""Address of the first node, of the API server for pods, and of DNS, inside."""

CGROUPS = Path("/sys/fs/cgroup")
CONTAINER_GROUP = "k8s.io"
"""containerd's control group for all containers."""

PRIVATE_PATHS = (
    Path("/dev/shm"),  # Envoy
    Path("/run/containerd"),  # containerd's shims and runc
    Path("/run/netns"),  # network namespaces of pods
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),  # sockets of device plugins, independent of the kubelet's root
)
"""Paths that are hard-coded in programs: empty inside, unchanged outside."""

CHUNK = 65536


def main(argv: Sequence[str]) -> int:
    """Run a command in a sandbox; return its exit code, or 2 if a prerequisite is missing."""
    return prerequisites.main() or run(argv)


def run(command: Sequence[str], sockets: Sequence[socket.socket] = ()) -> int:
    """Run a command in new namespaces, and delete its files and control groups afterwards."""
    name = f"fusioninfer-{secrets.token_hex(3)}"
    directory = tempfile.mkdtemp(prefix=f"{name}-")
    descriptors = [item.fileno() for item in sockets]
    environment = os.environ | {
        RUN_VARIABLE: name,
        SOCKETS_VARIABLE: ",".join(map(str, descriptors)),
        "TMPDIR": directory,
    }
    # If any process of this chain is killed, the kernel kills the rest.
    entry = ["setpriv", "--pdeathsig=KILL", "--", "unshare", "--net", "--mount", "--pid", "--fork"]
    entry += ["--kill-child", "--mount-proc", "--"]
    created = [folder for folder in PRIVATE_PATHS if not folder.exists()]
    try:
        process = subprocess.Popen(
            [*entry, *command], env=environment, pass_fds=descriptors, start_new_session=True
        )
        with _forward_signals(process):
            return process.wait()
    finally:
        for group in _list_control_groups(Path(directory)):
            _remove_control_group(group)
        for group in (CGROUPS / CONTAINER_GROUP, *CGROUPS.glob(f"*/{CONTAINER_GROUP}")):
            with contextlib.suppress(OSError):  # Another run has containers.
                group.rmdir()
        shutil.rmtree(directory, ignore_errors=True)
        for folder in created:
            with contextlib.suppress(OSError):  # Another run uses it.
                folder.rmdir()


@contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward Ctrl-C and SIGTERM to the command inside, because `unshare` ignores them."""

    def forward(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_inside() -> bool:
    return RUN_VARIABLE in os.environ


def prepare(addresses: Sequence[str], routes: Sequence[str]) -> None:
    """Configure the loopback device, enable forwarding and hide PRIVATE."""
    open_loopback()
    for address in addresses:
        _ip("address", "add", f"{address}/32", "dev", "lo")
    for network in routes:
        # nftables rewrites Service addresses in the output hook, which needs a route.
        _ip("route", "add", network, "dev", "lo", "src", addresses[0])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    for folder in PRIVATE_PATHS:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    subprocess.run(["mount", "--make-rshared", "/"], check=True)


def open_loopback() -> None:
    _ip("link", "set", "lo", "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _list_control_groups(directory: Path) -> list[Path]:
    """Return the control groups of containers that still ran at the end."""
    tasks = directory.glob("*/state/io.containerd.runtime.v2.task/k8s.io/*")
    names = [f"{CONTAINER_GROUP}/{task.name}" for task in tasks]
    return [path for name in names for path in (CGROUPS / name, *CGROUPS.glob(f"*/{name}"))]


def _remove_control_group(group: Path) -> None:
    """Remove a control group without processes, and the groups in it."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def listen() -> socket.socket:
    listening = socket.create_server((LOOPBACK, 0))
    listening.set_inheritable(True)
    return listening


def inherit_sockets() -> list[socket.socket]:
    text = os.environ.get(SOCKETS_VARIABLE, "")
    return [socket.socket(fileno=int(number)) for number in text.split(",") if number]


class Relay:
    """Forwards connections to a socket outside to an address inside."""

    def __init__(self, listening: socket.socket, target: tuple[str, int]) -> None:
        """Accept connections until the process exits."""
        self.port: int = listening.getsockname()[1]
        self._listening = listening
        self._target = target
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            outer, _ = self._listening.accept()
            try:
                inner = socket.create_connection(self._target, timeout=10)
            except OSError:
                outer.close()
                continue
            inner.settimeout(None)
            for source, sink in ((outer, inner), (inner, outer)):
                threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
