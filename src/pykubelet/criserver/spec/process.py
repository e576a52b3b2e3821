"""Builds the ``process`` of a spec: arguments, environment, user, capabilities. Pure."""

import re
from collections.abc import Iterable
from posixpath import normpath

from pykubelet.base.errors import Invalid
from pykubelet.base.files.path_length import check_length
from pykubelet.criserver.spec.security.apparmor import apparmor_profile
from pykubelet.criserver.spec.security.capabilities import capability_set
from pykubelet.criserver.spec.security.labels import process_label
from pykubelet.criserver.spec.spec_types import ContainerInput, Host, ImageDefaults, Json
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

_THROUGH_PROCESS = re.compile(r"/{1,2}proc/[^/]+/(task/[^/]+/)?(fd|cwd|root|map_files)(/|$)")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def arguments(config: pb.ContainerConfig, image: ImageDefaults) -> list[str]:
    """Build the command line: the request's command replaces the image's entrypoint, its args the image's cmd.

    A command without args replaces the image's cmd too (CRI, ``ContainerConfig``). Invalid: there is no command.
    """
    entrypoint = list(config.command) or list(image.entrypoint)
    args = list(config.args)
    if not args and not config.command:
        args = list(image.cmd)
    if not entrypoint and not args:
        raise Invalid(f"container {config.metadata.name}: neither the request nor the image defines a command")
    return entrypoint + args


def environment(config: pb.ContainerConfig, image: ImageDefaults, hostname: str) -> list[str]:
    """Build the environment; the request overrides the image, and both override the defaults."""
    base = [_PATH, f"HOSTNAME={hostname}", *(["TERM=xterm"] if config.tty else []), *image.env]
    # The bytes are passed unchanged: an environment need not be UTF-8.
    asked = (f"{each.key}={each.value.decode(errors='surrogateescape')}" for each in config.envs)
    return merged((*base, *asked))


def merged(variables: Iterable[str]) -> list[str]:
    """Merge variables; later values replace earlier ones of the same name."""
    table: dict[str, str] = {}
    for variable in variables:
        name, _, value = variable.partition("=")
        if name:
            table[name] = value
    return [f"{name}={value}" for name, value in table.items()]


def user(of: ContainerUser) -> Json:
    """Build the ``user`` of an OCI process."""
    return {"uid": of.uid, "gid": of.gid, "additionalGids": list(of.groups)}


def build_process(given: ContainerInput) -> Json:
    """Build the complete ``process``."""
    config, context = given.config, given.config.linux.security_context
    variables = environment(config, given.image, given.sandbox.hostname)
    if given.user.home and not any(each.startswith("HOME=") for each in variables):
        variables.append(f"HOME={given.user.home}")
    process: Json = {
        "terminal": config.tty,
        "user": user(given.user),
        "args": arguments(config, given.image),
        "env": variables,
        "cwd": config.working_dir or given.image.working_dir or "/",
        "capabilities": capability_set(context.capabilities, context.privileged, given.host.capabilities),
        "noNewPrivileges": context.no_new_privs,
        "oomScoreAdj": _oom_score(config.linux.resources.oom_score_adj, given.host),
    }
    profile = apparmor_profile(context, given.host)
    label = process_label(context, given.host, given.sandbox.selinux_level)
    process |= ({"apparmorProfile": profile} if profile else {}) | ({"selinuxLabel": label} if label else {})
    check_cwd(config.metadata.name, str(process["cwd"]))
    return process


def _oom_score(asked: int, host: Host) -> int:
    score = max(asked, host.least_oom_score)
    # crun before 1.9 takes 0 for a score that is not given: the container would inherit the server's protection.
    return 1 if score == 0 and host.oom_score < 0 else score


def check_cwd(container: str, cwd: str) -> None:
    """Raise Invalid for a working directory that is relative, or leads through a process's file descriptors.

    That could be a directory of the host that the OCI runtime holds open (CVE-2024-21626).
    """
    if not cwd.startswith("/"):
        raise Invalid(f"container {container}: the working directory {cwd!r} is not absolute")
    check_length(cwd, f"container {container}: the working directory")
    if _THROUGH_PROCESS.match(normpath(cwd)):
        raise Invalid(f"container {container}: the working directory {cwd!r} leads into a process; name a directory")
