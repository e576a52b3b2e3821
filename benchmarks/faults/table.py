"""All faults, in the order of the report."""

from functools import partial

from benchmarks.faults import acts_api as api
from benchmarks.faults import acts_daemons as daemons
from benchmarks.faults import acts_disks as disks
from benchmarks.faults import acts_hostile as hostile
from benchmarks.faults import acts_parts as parts
from benchmarks.faults import acts_records as records
from benchmarks.faults.fault import OUR_AGENT, OUR_RUNTIME, Fault
from benchmarks.faults.model import Group, Restarts
from benchmarks.faults.parts import Order
from pykubelet.testing.registry import Conduct

_HOUR = 3600.0

_daemon = partial(Fault, group=Group.DAEMONS)
_disk = partial(Fault, group=Group.DISKS)
_part = partial(Fault, group=Group.PARTS)
_single = partial(Fault, group=Group.PARTS, bystanders=True)
_record = partial(Fault, group=Group.RECORDS, subjects=OUR_RUNTIME)
_api = partial(Fault, group=Group.API, bystanders=True)
_machine = partial(Fault, group=Group.MACHINE)
_hostile = partial(Fault, group=Group.HOSTILE, bystanders=True)
_AGENT, _RUNTIME = daemons.agent_pid, daemons.runtime_pid

FAULTS: tuple[Fault, ...] = (
    _daemon("agent-killed", "the agent is killed (SIGKILL)", daemons.agent_killed),
    _daemon("runtime-killed", "the runtime is killed", daemons.runtime_killed),
    _daemon("both-killed", "both are killed", daemons.both_killed),
    _daemon("both-killed-busy", "both are killed while pods come and go", daemons.both_killed_while_busy),
    _daemon("agent-stopped", "the agent is stopped (SIGSTOP)", daemons.stopped(_AGENT)),
    _daemon("runtime-stopped", "the runtime is stopped", daemons.stopped(_RUNTIME)),
    _daemon("runtime-oom", "the kernel kills the runtime for its memory", daemons.runtime_out_of_memory),
    _daemon("runtime-pids", "the runtime can start no process or thread", daemons.no_processes(_RUNTIME)),
    _daemon("agent-pids", "the agent can start no process or thread", daemons.no_processes(_AGENT)),
    _daemon("runtime-fds", "the runtime has no file descriptor left", daemons.no_descriptors(_RUNTIME)),
    _daemon("agent-fds", "the agent has no file descriptor left", daemons.no_descriptors(_AGENT)),
    _daemon("container-killed", "a container is killed", daemons.container_killed, restarts=Restarts.VICTIM),
    _daemon("monitor-killed", "a monitor (conmon, shim) is killed", daemons.monitor_killed, restarts=Restarts.VICTIM),
    _daemon(
        "monitor-container-killed",
        "a monitor and then its container are killed",
        daemons.monitor_and_container_killed,
        restarts=Restarts.VICTIM,
    ),
    _daemon("infra-killed", "a pod's infra process is killed", daemons.infra_killed, restarts=Restarts.VICTIM),
    _disk("disk-full", "the disk is full", disks.full(disks.disk)),
    _disk("disk-read-only", "the root directories are read-only", disks.read_only(disks.disk)),
    _disk("disk-eio", "the root directories answer EIO", disks.failing(disks.disk)),
    _disk("disk-aborted", "the kernel finds the disk damaged; reboot", disks.aborted_disk, restarts=Restarts.ALL),
    _disk("disk-dead", "the disk is dead (EIO); reboot", disks.dead_disk, restarts=Restarts.ALL),
    _disk("run-full", "/run is full", disks.full(disks.run)),
    _disk("run-inodes", "/run has no inode left", disks.without_inodes(disks.run)),
    _disk("run-read-only", "/run is read-only", disks.read_only(disks.run)),
    _disk("run-eio", "/run answers EIO", disks.failing(disks.run)),
    _disk("log-full", "/var/log is full", disks.full(disks.log)),
    _disk("log-read-only", "/var/log is read-only", disks.read_only(disks.log)),
    _disk("log-eio", "/var/log answers EIO", disks.failing(disks.log)),
    _single("volume-hung", "six pods start on a FUSE volume that hangs", parts.hung_volume),
    _single("volume-killed", "six pods start on a FUSE volume whose daemon was killed", parts.killed_volume),
    _single("volume-stuck", "a pod stuck in a hung FUSE volume is removed", parts.volume_hangs_under_pod),
    _single("registry-stalls", "a registry stalls within a layer", parts.registry(None)),
    _single("registry-lies", "a registry sends layers of a wrong digest", parts.registry(Conduct.LIE)),
    _single("registry-cuts", "a registry breaks layers off", parts.registry(Conduct.CUT)),
    _single("registry-500", "a registry answers 500", parts.registry(Conduct.FAIL)),
    _part("cni-hangs", "a network plugin hangs", parts.ordered(parts.plugin, Order.HANG), hold=4.0),
    _part("cni-fails", "a network plugin fails", parts.ordered(parts.plugin, Order.FAIL)),
    _part("cni-garbage", "a network plugin prints random bytes", parts.ordered(parts.plugin, Order.GARBAGE)),
    _part("cni-flood", "a network plugin prints 64 MB", parts.ordered(parts.plugin, Order.FLOOD)),
    _part("cni-missing", "a network plugin is missing", parts.missing_plugin),
    _part("oci-hangs", "runc hangs", parts.ordered(parts.oci, Order.HANG), hold=3.0),
    _part("oci-fails", "runc fails", parts.ordered(parts.oci, Order.FAIL)),
    _part("oci-garbage", "runc prints random bytes and does nothing", parts.ordered(parts.oci, Order.GARBAGE)),
    _record("database-garbage", "the database holds random bytes", records.damaged(records.garbage_database)),
    _record("database-half", "the database is cut in half", records.damaged(records.half_database)),
    _record("database-empty", "the database is empty", records.damaged(records.empty_database)),
    _record("database-older", "the database lacks a table", records.damaged(records.older_schema)),
    _record("database-newer", "a newer version's database; then the right version", records.newer_schema),
    _record("copies-torn", "the copies of its records are cut off", records.damaged(records.torn_copies)),
    _record("networks-torn", "the records of networks are cut off", records.damaged(records.torn_networks)),
    _record(
        "layers-torn", "records of image layers and root file systems are cut off", records.damaged(records.torn_layers)
    ),
    _record("bundles-torn", "configurations of containers are cut off", records.damaged(records.torn_bundles)),
    _api("api-away", "it does not listen", api.away),
    _api("api-slow", "every answer takes two seconds", api.answering(api.slow)),
    _api("api-500", "it answers 500", api.answering(api.internal_error)),
    _api("api-429", "it answers 429 with Retry-After", api.answering(api.too_many_requests)),
    _api("api-401", "it answers 401", api.answering(api.unauthorized)),
    _api("api-drops", "it closes connections without an answer", api.answering(api.dropped)),
    _api("api-410", "it answers 410 to watches", api.expired),
    _api("api-truncates", "it ends watches within an event", api.answering(api.truncated)),
    _api("api-corrupt", "its lists hold what cannot be decoded", api.answering(api.corrupt_lists)),
    _machine("clock-forward", "the clock jumps ahead by an hour and back", disks.clock(_HOUR), subjects=OUR_AGENT),
    _machine("clock-back", "the clock jumps back by an hour and ahead", disks.clock(-_HOUR), subjects=OUR_AGENT),
    _machine("reboot", "the machine loses power and boots", disks.reboot, restarts=Restarts.ALL),
    _hostile("fork-bomb", "a fork bomb", hostile.hostile(hostile.fork_bomb)),
    _hostile("names", "names of processes that are no UTF-8", hostile.hostile(hostile.foreign_names)),
    _hostile("marks", "processes with the server's own mark", hostile.hostile(hostile.foreign_marks)),
    _hostile("monitor-posed", "a process poses as a monitor", hostile.posed_monitor, restarts=Restarts.VICTIM),
    _hostile("log-flood", "1 GB of output a minute", hostile.log_flood),
    _hostile("files", "very many files", hostile.hostile(hostile.many_files, ready=True)),
    _hostile("deep", "2,000 directories in each other", hostile.hostile(hostile.deep_directories, ready=True)),
    _hostile("zombies", "zombies that no parent waits for", hostile.hostile(hostile.zombies)),
    _hostile("manifests", "1,000 manifests rewritten per second", hostile.rewritten_manifests),
    _hostile("sessions", "500 exec sessions opened and dropped", hostile.dropped_sessions),
)
