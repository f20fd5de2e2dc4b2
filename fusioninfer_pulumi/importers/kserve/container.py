"""The container `main`: what KServe's presets add to it when the pod starts, as plain arguments.

The presets (config/llmisvcconfig in KServe's sources, v0.20) run a shell script around
`vllm serve`. A container without a command of its own gets that program, with the words that the
script would have appended: those of VLLM_ADDITIONAL_ARGS, then its own args, both read by a shell.
"""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.kserve.merging import Node, edited, made
from fusioninfer_pulumi.importers.kserve.presets import ADDITIONAL, MAIN, Preset, with_preset
from fusioninfer_pulumi.importers.kserve.words import argument_words, shell_words

#: Image of the presets.
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.9.0"
INFER_ROCE = "KSERVE_INFER_ROCE"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def with_engine(book: Book, pod: Node, preset: Preset) -> Node:
    """A pod spec whose container `main` starts the engine by itself.

    Args:
        book: Where is noted what becomes of the fields.
        pod: The pod spec as the user wrote it.
        preset: Which of the presets holds for it.

    Returns:
        The pod spec with what the presets lay below it, and without what only they read.
    """
    listed = pod.get("containers")
    if listed is not None and MAIN not in [node.text("name") for node in listed.items]:
        book.refuse(listed.at, "has no container main, the one that KServe's presets configure")
        return pod
    pod = with_preset(book, pod, preset)
    laid = pod.get("containers")
    assert laid is not None, "the preset has them"
    items = [_engine(book, node) if node.text("name") == MAIN else node for node in laid.items]
    return edited(pod, containers=Node(laid.at, items, laid.made))


def _engine(book: Book, container: Node) -> Node:
    if container.get("image") is None:
        book.note(container.at, f"no image: that of KServe's presets, {IMAGE}")
        container = edited(container, image=made(container.at, IMAGE))
    env = container.get("env")
    variables = env.items if env is not None else []
    for variable in variables:
        _infer_roce(book, variable)
    if container.get("command") is not None:
        return container
    names = {each.text("name") or "" for each in variables}
    words: list[Node] = []
    kept: list[Node] = []
    for variable in variables:
        value = variable.get("value")
        if variable.text("name") != ADDITIONAL:
            kept.append(variable)
        elif value is None:
            book.refuse(variable.at, f"{ADDITIONAL} must have a value here: it is read by a shell")
        else:
            book.read(variable.at)
            # The kubelet knows variables in each other's values only in their order.
            words += shell_words(book, value, names, [each.text("name") or "" for each in kept])
    args = container.get("args")
    if args is not None and args.items:
        words += argument_words(book, args, names)
    at = container.at
    container = edited(
        container,
        command=made(at, ["vllm", "serve"]),
        args=Node(args.at if args is not None else at, words, args is None) if words else None,
        env=Node(env.at, kept, env.made) if env is not None and variables else env,
    )
    for probe in _PROBES:
        container = _plain_http(book, container, probe)
    return container


def _infer_roce(book: Book, variable: Node) -> None:
    if variable.text("name") == INFER_ROCE and variable.text("value") == "true":
        book.warn(
            variable.at,
            "only the script of KServe's presets looks for RoCE devices when a pod starts: state "
            "NCCL_IB_HCA, NCCL_IB_GID_INDEX and UCX_NET_DEVICES in env",
        )


def _plain_http(book: Book, container: Node, probe: str) -> Node:
    scheme = container.get(probe, "httpGet", "scheme")
    if scheme is None or scheme.content != "HTTPS":
        return container
    book.note(scheme.at, "KServe gives the engine a certificate; ours serves plain HTTP: now HTTP")
    found, asked = container.get(probe), container.get(probe, "httpGet")
    assert found is not None
    assert asked is not None
    plain = edited(asked, scheme=Node(scheme.at, "HTTP"))
    return edited(container, **{probe: edited(found, httpGet=plain)})
