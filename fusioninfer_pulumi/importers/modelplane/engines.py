"""One engine of a released ModelDeployment as a role of ours."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Path
from fusioninfer_pulumi.importers.modelplane.devices import carry_devices
from fusioninfer_pulumi.importers.modelplane.models import Engine, Member, MemberRole
from fusioninfer_pulumi.importers.modelplane.shared import TYPES, carry_template

WORKER = "worker"


def carry_engine(carrier: Carrier, engine: Engine, at: At, *, pairs: bool) -> None:
    """Carries one engine over.

    Args:
        carrier: The service.
        engine: The engine.
        at: Where it stands.
        pairs: Whether prefill and decode are engines of their own.
    """
    book = carrier.book
    target = carrier.role(at)
    carrier.put((*target, "name"), engine.name, at / "name")
    kind = TYPES[engine.phase] if pairs and engine.phase is not None else WORKER
    carrier.derive((*target, "componentType"), kind, at / "phase")
    if engine.copies is not None:
        carrier.put((*target, "replicas"), engine.copies, at / "copies")
    if pairs:
        if engine.copies is None:
            carrier.imply((*target, "replicas"), 1, at)
            book.note(
                at / "copies", "is not stated: 1 is assumed, and with it the share of prefill"
            )
        carrier.imply((*target, "kvTransfer"), {}, at / "phase")
    roles = {member.role: index for index, member in enumerate(engine.members)}
    for index, member in enumerate(engine.members):
        _member(carrier, target, member, at / "members" / index, gang=len(engine.members) > 1)
    carry_devices(
        carrier,
        target,
        [
            (member.node_selector, at / "members" / index / "nodeSelector")
            for index, member in enumerate(engine.members)
        ],
    )
    _shape(carrier, engine, roles, at)


def _member(carrier: Carrier, target: Path, member: Member, at: At, *, gang: bool) -> None:
    carrier.book.read(at / "role")
    field = "template"
    if gang:
        field = "workerTemplate" if member.role is MemberRole.WORKER else "leaderTemplate"
    carry_template(
        carrier,
        (*target, field),
        member.template,
        at / "template",
        gang=gang,
        serves=member.role is not MemberRole.WORKER,
    )
    if member.role is MemberRole.WORKER:
        nodes = member.worker.nodes if member.worker is not None else 1
        carrier.derive((*target, "multinode", "nodeCount"), 1 + nodes, at / "worker" / "nodes")
        # The members' commands find each other by themselves.
        carrier.imply((*target, "multinode", "launcher"), "none", at)
    elif member.worker is not None:
        carrier.book.refuse(at / "worker", "belongs to a member of role Worker")


def _shape(carrier: Carrier, engine: Engine, roles: dict[MemberRole, int], at: At) -> None:
    alone = len(engine.members) == 1 and MemberRole.STANDALONE in roles
    if not alone and set(roles) != {MemberRole.LEADER, MemberRole.WORKER}:
        carrier.book.refuse(
            at / "members",
            "must be one Standalone member, or a Leader and a Worker, got "
            + ", ".join(member.role.value for member in engine.members),
        )
    if all(member.node_selector is None for member in engine.members):
        carrier.book.refuse(
            at / "members", "at least one member must have a nodeSelector that asks for devices"
        )
