"""The life cycle of a sandbox, and decisions about recorded ones. Pure."""

from msgspec.structs import replace

from pykubelet.base.errors import Conflict
from pykubelet.base.transition_table import LifeCycle
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord

LIFE_CYCLE = LifeCycle(
    "sandbox",
    (
        (SandboxPhase.MAKING, "all its parts are made", SandboxPhase.READY),
        (SandboxPhase.MAKING, "it is removed", SandboxPhase.REMOVING),
        (SandboxPhase.READY, "the call that created it was cancelled", SandboxPhase.REMOVING),
        (SandboxPhase.READY, "it is stopped, its infra process ends, or a part is lost", SandboxPhase.STOPPED),
        (SandboxPhase.STOPPED, "its addresses are released", SandboxPhase.STOPPED),
        (SandboxPhase.STOPPED, "it is removed", SandboxPhase.REMOVING),
        (SandboxPhase.REMOVING, "the removal is retried", SandboxPhase.REMOVING),
    ),
)
"""Its diagram is in ARCHITECTURE.md."""


def id_for_retry(holder: SandboxRecord, wanted: SandboxRecord) -> SandboxID:
    """Return the id of the sandbox that holds a name to a client that retries the same request.

    Conflict: the requests differ, or the sandbox is not ready.
    """
    same = (holder.request, holder.handler) == (wanted.request, wanted.handler)
    if holder.phase is SandboxPhase.READY and same:
        return holder.id
    state = f"sandbox {holder.id}, which is {holder.phase.value}"
    raise Conflict(f"sandbox name {holder.name!r} is reserved for {state} or was requested with other settings")


def adopted_phase(record: SandboxRecord, *, boot: str, namespaces_there: bool, infra_alive: bool) -> SandboxPhase:
    """The phase of a recorded sandbox when the server starts: not ready if a reboot or a loss made it unusable.

    A reboot ends every sandbox, also one that uses only the node's namespaces, which shows no other trace.
    """
    same_boot = record.boot in ("", boot)
    if record.phase is SandboxPhase.READY and not (same_boot and namespaces_there and infra_alive):
        return SandboxPhase.STOPPED
    return record.phase


def of_boot(record: SandboxRecord, last: str) -> SandboxRecord:
    """Fill in the boot in which it was created: older servers stored only one for all records, ``last``."""
    return record if record.boot else replace(record, boot=last)
