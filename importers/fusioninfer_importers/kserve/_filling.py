"""Evaluates the Go templates of a spec; drops values that cannot be evaluated, with their flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._child_names import POOL, SERVICE, WORKLOADS, child_name
from fusioninfer_importers.kserve._nodes import Node
from fusioninfer_importers.kserve.container import ADDITIONAL
from fusioninfer_importers.kserve.templates import Scope, TemplateError, evaluate
from fusioninfer_importers.objects import MODEL_HEADER
from fusioninfer_importers.rules import FIELD_UNSUPPORTED
from fusioninfer_pulumi.plugins.importers import Location, object_names

#: Suffix of the Service in front of KServe's endpoint picker.
_PICKER = "-epp-service"
#: Suffix of the Secret with the certificates of KServe's controller.
_CERTIFICATES = "-kserve-self-signed-certs"
#: KServe's settings for its cluster, as its manifests install them; engines serve plain HTTP here.
_SETTINGS = {
    "EnableTLS": False,
    "SystemNamespace": "kserve",
    "IngressGatewayName": "kserve-ingress-gateway",
    "IngressGatewayNamespace": "kserve",
    "ModelBasedRoutingHeaderName": MODEL_HEADER,
}
_LISTS_OF_WORDS = ("args", "command")
#: A word of a shell, with its quotes.
_WORD = re.compile(
    r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\{\{.*?\}\}|\\.|[^\s'"\\])+""",
    re.DOTALL,
)


def fill_templates(builder: ServiceBuilder, spec: Node) -> Node:
    """Return the spec with its Go templates evaluated for a service."""
    filling = _Filling(builder, spec)
    filled = filling.filled(spec, ()) or Node(spec.at, {})
    return filling.without_lost_mounts(filled) if filling.lost_volumes else filled


class _Filling:
    def __init__(self, builder: ServiceBuilder, spec: Node) -> None:
        document, model = builder.main, spec.get("model")
        self._report = builder.report
        #: Names of volumes that are left out because a part of them cannot be evaluated.
        self.lost_volumes: set[str] = set()
        self._service = document.name
        spec_of_service = dict(document.raw["spec"])
        # KServe takes the model's name from the configs, too; other fields are the service's own.
        name = (model.text("name") if model is not None else None) or document.name
        self._spec = {
            **spec_of_service,
            "model": {**(spec_of_service.get("model") or {}), "name": name},
        }
        self._metadata = {
            **document.metadata,
            "name": document.name,
            "namespace": document.namespace,
        }
        self._settings = {
            **_SETTINGS,
            "InferencePoolNamespacedName": (
                f"{document.namespace}/{object_names.inference_pool(str(document.name))}"
            ),
        }

    def filled(self, node: Node, path: Location) -> Node | None:
        """Return a tree with its templates evaluated, None if nothing of it remains."""
        content = node.content
        if isinstance(content, dict):
            made = {key: self.filled(item, (*path, key)) for key, item in content.items()}
            lost = any(made.get(key, node) is None for key in ("name", "value"))
            if path[-2:-1] == ("env",) and lost:
                self._report.consume(*(leaf.at for _, leaf in node.leaves()))
                return None  # a variable without its value would be wrong
            kept = {key: item for key, item in made.items() if item is not None}
            whole = Node(node.at, kept, node.synthetic)
            if path[-2:-1] == ("volumes",) and _scalars(whole) < _scalars(node):
                self.lost_volumes.add(str(node.text("name")))
                self._report.consume(*(leaf.at for _, leaf in node.leaves()))
                return None  # a Secret or ConfigMap without its name is rejected
            return whole
        if isinstance(content, list):
            return Node(node.at, list(self._items(content, path)), node.synthetic)
        if not isinstance(content, str) or "{{" not in content:
            return node
        scope = self._scope(path)
        try:
            return Node(node.at, evaluate(content, scope))
        except TemplateError as problem:
            if _CERTIFICATES in content and path[-2:] == ("secret", "secretName"):
                message = "ignored because engines serve plain HTTP here, without certificates"
                self._report.left_out(node.at, message)
            else:
                self._refuse(node, path, problem)
        words = self._words(node, path)
        return Node(node.at, " ".join(words)) if words else None

    def without_lost_mounts(self, node: Node) -> Node:
        """Return a tree without the mounts of volumes that are left out."""
        if isinstance(node.content, dict):
            made = {key: self.without_lost_mounts(item) for key, item in node.content.items()}
            mounts = made.get("volumeMounts")
            if mounts is not None:
                lost = [item for item in mounts.items if item.text("name") in self.lost_volumes]
                for item in lost:
                    self._report.left_out(item.at, "ignored because its volume is ignored")
                others = [item for item in mounts.items if item not in lost]
                made["volumeMounts"] = Node(mounts.at, others, mounts.synthetic)
            return Node(node.at, made, node.synthetic)
        if isinstance(node.content, list):
            items = [self.without_lost_mounts(item) for item in node.content]
            return Node(node.at, items, node.synthetic)
        return node

    def _items(self, items: Iterable[Node], path: Location) -> Iterator[Node]:
        listed = list(items)
        made = [self.filled(item, (*path, index)) for index, item in enumerate(listed)]
        if path[-1] not in _LISTS_OF_WORDS:
            yield from (entry for entry in made if entry is not None)
            return
        for index, entry in enumerate(made):
            after = made[index + 1] if index + 1 < len(made) else entry
            if entry is None:
                continue
            if entry.content == "" and listed[index].content != "":
                self._report.left_out(
                    entry.at,
                    "its Go template is empty because engines serve plain HTTP here; ignored",
                )
            elif after is None and _waits(entry.content):
                self._report.left_out(
                    entry.at, "ignored because its value, the next argument, is ignored"
                )
            else:
                yield entry

    def _words(self, node: Node, path: Location) -> list[str]:
        """Return the words of a shell command, without unknown words and their flags."""
        if path[-1:] != ("value",) or ADDITIONAL not in _sibling_names(node):
            return []
        kept: list[str] = []
        for word in _WORD.findall(node.content):
            try:
                kept.append(evaluate(word, self._scope(path)))
            except TemplateError:
                if kept and _waits(kept[-1]):
                    kept.pop()
        return kept

    def _refuse(self, node: Node, path: Location, problem: TemplateError) -> None:
        message = f"its Go template cannot be evaluated here: {problem}; write what it becomes"
        script = bool(set(path) & {*_LISTS_OF_WORDS}) and not str(node.content).startswith("-")
        if script and re.search(r"\s", re.sub(r"\{\{.*?\}\}", "", node.content)):
            # Leaving out a whole script would leave out the program.
            self._report.error(FIELD_UNSUPPORTED, node.at, message)
        else:
            self._report.unsupported(node.at, message)

    def _scope(self, path: Location) -> Scope:
        """Return the values that templates at a path may read."""

        def child(parent: str, suffix: str) -> str:
            made = child_name(parent, suffix)
            if parent != self._service:
                raise TemplateError(f"no service in this input creates {made}")
            if suffix == _PICKER:
                return object_names.endpoint_picker(parent)
            routed = path[:1] == ("router",) and suffix in (POOL, SERVICE)
            if routed or ("scaling" in path and suffix in WORKLOADS):
                return made  # replaced where it is used
            if suffix == POOL:
                return object_names.inference_pool(parent)
            raise TemplateError(f"KServe's {made} does not exist here")

        return Scope(self._metadata, self._spec, self._settings, child)


def _scalars(node: Node) -> int:
    return sum(leaf.content not in ({}, []) for _, leaf in node.leaves())


def _waits(word: Any) -> bool:
    """Return whether a word is a flag whose value follows."""
    return isinstance(word, str) and word.startswith("-") and "=" not in word


def _sibling_names(node: Node) -> tuple[Any, ...]:
    """Return the name of the variable that a value belongs to."""
    at = node.at
    parent = type(at)(at.document, at.path[:-1])
    return ((parent / "name").value,)
