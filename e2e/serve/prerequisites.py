"""Check the prerequisites of real pods: `python -m e2e.serve.prerequisites`.

It exits with status 2 and prints the reasons if a prerequisite is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.catalog import tool
from e2e.serve import engine

PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
"""Debian packages by program."""

PLUGINS = ("ptp", "host-local", "loopback")
PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))

UV = "uv"
"""The installer of engines."""

TOOLS = ("coredns", "etcd", "kubernetes", "kubernetes-node", "lws-0.9", "volcano", "epp-1.2",
         "gateway-api", "epp-1.5", "prometheus-operator", "keda")  # fmt: skip
"""Required programs and CRDs of the tool catalog."""


def find_plugin_folder() -> Path | None:
    for folder in PLUGIN_FOLDERS:
        if all((folder / name).is_file() for name in PLUGINS):
            return folder
    return None


def list_missing_prerequisites() -> list[str]:
    """Return a sentence for each missing prerequisite of the machine."""
    if not sys.platform.startswith("linux"):
        return ["needs Linux"]
    reasons = [] if os.geteuid() == 0 else ["needs root"]
    reasons += [
        f"needs {program} on PATH (Debian: apt-get install {package})"
        for program, package in PROGRAMS.items()
        if shutil.which(program) is None
    ]
    if find_plugin_folder() is None:
        folders = ", ".join(map(str, PLUGIN_FOLDERS))
        reasons.append(
            f"needs the network plugins {', '.join(PLUGINS)} in one of {folders} "
            "(Debian: apt-get install containernetworking-plugins)"
        )
    if shutil.which(UV) is None and engine.list_missing():
        reasons.append("needs uv on PATH (pip install uv)")
    return reasons or _list_missing_kernel_features()


def main() -> int:
    reasons = list_missing_prerequisites()
    if reasons:
        print("pods cannot run on this machine:", *(f"  {reason}" for reason in reasons), sep="\n")
    return 2 if reasons else 0


def list_missing_tools() -> list[str]:
    missing = [name for name in TOOLS if not tool(name).is_built]
    return [f"needs python -m e2e.build_tools --only {' '.join(missing)}"] if missing else []


def _list_missing_kernel_features() -> list[str]:
    """Return missing kernel features, tested in temporary namespaces."""
    reasons = []
    if "\toverlay\n" not in Path("/proc/filesystems").read_text(encoding="ascii"):
        reasons.append("needs the file system overlay (modprobe overlay)")
    spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
    if not _can_run([*spaces, "true"]):
        return [*reasons, "needs network, mount and process namespaces (unshare fails)"]
    if not _can_run([*spaces, "nft", "add table ip probe"]):
        reasons.append("needs nftables in the kernel (nft add table fails)")
    if not _can_run([*spaces, "ip", "link", "add", "probe0", "type", "veth"]):
        reasons.append("needs virtual network devices (ip link add type veth fails)")
    if not os.access("/sys/fs/cgroup", os.W_OK):
        reasons.append("needs write access to /sys/fs/cgroup")
    return reasons


def _can_run(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
