"""Makes the emulated machine one whose kernel enforces SELinux: packages, policy, and labels of its root disk."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

PACKAGES = ("policycoreutils", "selinux-policy-default")
KERNEL = "security=selinux selinux=1 enforcing=1 sysctl.kernel.printk_ratelimit=0"
"""No message about a denial is left out."""
_POLICY = Path(__file__).with_name("containers.cil")
_CONTEXTS = "/etc/selinux/default/contexts/files/file_contexts"


def digest() -> str:
    """Tells this form of the machine from others that these files describe."""
    return hashlib.sha256(Path(__file__).read_bytes() + _POLICY.read_bytes()).hexdigest()


def prepare(tree: Path, call: Callable[..., None]) -> None:
    """Add the types of containers to the policy, and label all files as it says.

    The machine never boots with another policy than this one, so that it need not relabel anything. ``call`` runs a
    command of this machine.
    """
    journald = tree / "etc/systemd/journald.conf.d"
    journald.mkdir(exist_ok=True)
    # Without it, the kernel only tells what it has denied.
    (journald / "audit.conf").write_text("[Journal]\nAudit=no\n")
    (tree / "etc/selinux/config").write_text("SELINUX=enforcing\nSELINUXTYPE=default\n")
    shutil.copy(_POLICY, tree / "root" / _POLICY.name)
    call("chroot", str(tree), "semodule", "--noreload", "--install", f"/root/{_POLICY.name}")
    # setfiles sets labels through /proc/self/fd.
    labelled = 'mount -t proc proc "$0/proc" && exec chroot "$0" setfiles -F "$1" /'
    call("unshare", "--mount", "sh", "-c", labelled, str(tree), _CONTEXTS)
