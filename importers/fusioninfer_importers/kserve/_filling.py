"""Evaluates the Go templates of a spec; drops values that cannot be evaluated, and their flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._child_names import POOL, SERVICE, WORKLOADS, name_child
from fusioninfer_importers.kserve._nodes import Node
from fusioninfer_importers.kserve.container import EXTRA_ARGS
from fusioninfer_importers.kserve.templates import Scope, TemplateError, evaluate
from fusioninfer_importers.objects import MODEL_HEADER
from fusioninfer_importers.rules import FIELD_UNSUPPORTED
from fusioninfer_pulumi.plugins.importers import Location, object_names

#: Suffix of the Service in front of KServe's endpoint picker.
_PICKER_SUFFIX = "-epp-service"
#: Suffix of the Secret with the certificates of KServe's controller.
_CERTIFICATES_SUFFIX = "-kserve-self-signed-certs"
#: KServe's settings for its cluster, as its manifests install them; engines serve plain HTTP here.
_SETTINGS = {
    "EnableTLS": False,
    "SystemNamespace": "kserve",
    "IngressGatewayName": "kserve-ingress-gateway",
    "IngressGatewayNamespace": "kserve",
    "ModelBasedRoutingHeaderName": MODEL_HEADER,
}
_WORD_LISTS = ("args", "command")
#: A word of a shell, with its quotes.
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\{\{.*?\}\}|\\.|[^\s'"\\])+""", re.DOTALL)


def fill_templates(builder: ServiceBuilder, spec: Node) -> Node:
    """Return the spec with its Go templates evaluated for a service."""
    filler = _TemplateFiller(builder, spec)
    filled = filler.fill(spec, ()) or Node(spec.field, {})
    return filler.drop_mounts(filled) if filler.dropped_volumes else filled


class _TemplateFiller:
    def __init__(self, builder: ServiceBuilder, spec: Node) -> None:
        document, model = builder.main, spec.get("model")
        self._report = builder.report
        #: Names of volumes that are dropped because a part of them cannot be evaluated.
        self.dropped_volumes: set[str] = set()
        self._service = document.name
        spec_of_service = dict(document.raw["spec"])
        # KServe also takes the model's name from configs; other fields come only from the service.
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

    def fill(self, node: Node, path: Location) -> Node | None:
        """Return a tree with its templates evaluated, or None if nothing of it remains."""
        content = node.content
        if isinstance(content, dict):
            nodes = {key: self.fill(item, (*path, key)) for key, item in content.items()}
            is_incomplete = any(key in nodes and nodes[key] is None for key in ("name", "value"))
            if path[-2:-1] == ("env",) and is_incomplete:
                self._report.consume(*(leaf.field for _, leaf in node.leaves()))
                return None  # a variable without its value would be wrong
            fields = {key: item for key, item in nodes.items() if item is not None}
            filled = Node(node.field, fields, node.synthetic)
            if path[-2:-1] == ("volumes",) and _count_scalars(filled) < _count_scalars(node):
                self.dropped_volumes.add(str(node.text("name")))
                self._report.consume(*(leaf.field for _, leaf in node.leaves()))
                return None  # a Secret or ConfigMap without its name is rejected
            return filled
        if isinstance(content, list):
            return Node(node.field, list(self._fill_items(content, path)), node.synthetic)
        if not isinstance(content, str) or "{{" not in content:
            return node
        scope = self._build_scope(path)
        try:
            return Node(node.field, evaluate(content, scope))
        except TemplateError as exc:
            if _CERTIFICATES_SUFFIX in content and path[-2:] == ("secret", "secretName"):
                message = "ignored because engines serve plain HTTP here, without certificates"
                self._report.left_out(node.field, message)
            else:
                self._report_failure(node, path, exc)
        words = self._fill_words(node, path)
        return Node(node.field, " ".join(words)) if words else None

    def drop_mounts(self, node: Node) -> Node:
        """Return a tree without the mounts of dropped volumes."""
        if isinstance(node.content, dict):
            nodes = {key: self.drop_mounts(item) for key, item in node.content.items()}
            mounts = nodes.get("volumeMounts")
            if mounts is not None:
                dropped = [
                    item for item in mounts.items if item.text("name") in self.dropped_volumes
                ]
                for item in dropped:
                    self._report.left_out(item.field, "ignored because its volume is ignored")
                kept_mounts = [item for item in mounts.items if item not in dropped]
                nodes["volumeMounts"] = Node(mounts.field, kept_mounts, mounts.synthetic)
            return Node(node.field, nodes, node.synthetic)
        if isinstance(node.content, list):
            items = [self.drop_mounts(item) for item in node.content]
            return Node(node.field, items, node.synthetic)
        return node

    def _fill_items(self, items: Iterable[Node], path: Location) -> Iterator[Node]:
        source_items = list(items)
        nodes = [self.fill(item, (*path, index)) for index, item in enumerate(source_items)]
        if path[-1] not in _WORD_LISTS:
            yield from (entry for entry in nodes if entry is not None)
            return
        for index, entry in enumerate(nodes):
            is_next_dropped = nodes[index + 1 : index + 2] == [None]
            if entry is None:
                continue
            if entry.content == "" and source_items[index].content != "":
                self._report.left_out(
                    entry.field,
                    "its Go template is empty here, where engines serve plain HTTP; ignored",
                )
            elif is_next_dropped and _is_flag_without_value(entry.content):
                self._report.left_out(
                    entry.field, "ignored because its value, the next argument, is ignored"
                )
            else:
                yield entry

    def _fill_words(self, node: Node, path: Location) -> list[str]:
        """Return the words of VLLM_ADDITIONAL_ARGS that can be evaluated; none for other fields."""
        if path[-1:] != ("value",) or _read_variable_name(node) != EXTRA_ARGS:
            return []
        kept: list[str] = []
        for word in _WORD.findall(node.content):
            try:
                kept.append(evaluate(word, self._build_scope(path)))
            except TemplateError:
                if kept and _is_flag_without_value(kept[-1]):
                    kept.pop()
        return kept

    def _report_failure(self, node: Node, path: Location, exc: TemplateError) -> None:
        message = f"its Go template cannot be evaluated here: {exc}; write the value"
        is_flag = node.content.startswith("-")
        has_blanks = re.search(r"\s", re.sub(r"\{\{.*?\}\}", "", node.content)) is not None
        if has_blanks and not is_flag and any(key in path for key in _WORD_LISTS):
            # This is a script. A container without its script would start another program.
            self._report.error(FIELD_UNSUPPORTED, node.field, message)
        else:
            self._report.unsupported(node.field, message)

    def _build_scope(self, path: Location) -> Scope:
        """Return the values that templates at a path may read."""

        def rename_child(parent: str, suffix: str) -> str:
            kserve_name = name_child(parent, suffix)
            if parent != self._service:
                raise TemplateError(f"no service in this input creates {kserve_name}")
            if suffix == _PICKER_SUFFIX:
                return object_names.endpoint_picker(parent)
            is_route = path[:1] == ("router",) and suffix in (POOL, SERVICE)
            if is_route or ("scaling" in path and suffix in WORKLOADS):
                return kserve_name  # the conversion of routes and scaling replaces it
            if suffix == POOL:
                return object_names.inference_pool(parent)
            raise TemplateError(f"KServe's {kserve_name} does not exist here")

        return Scope(self._metadata, self._spec, self._settings, rename_child)


def _count_scalars(node: Node) -> int:
    return sum(leaf.content not in ({}, []) for _, leaf in node.leaves())


def _is_flag_without_value(word: Any) -> bool:
    """Return whether a word is a flag whose value, if it has one, is the next word."""
    return isinstance(word, str) and word.startswith("-") and "=" not in word


def _read_variable_name(value: Node) -> Any:
    """Return the name of the environment variable whose value this is."""
    return value.field.document.at(*value.field.path[:-1], "name").value
