"""The system calls that the RuntimeDefault seccomp profile allows: everywhere, by architecture and by capability. Pure.

The calls are those that containerd and Docker allow by default, since images rely on them. Names that a kernel or
libseccomp does not know are skipped by the OCI runtime.
"""

import re

from msgspec import Struct

ALLOWED = frozenset(
    """
accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32 clock_adjtime
clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64
close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old
epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64
fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync
ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list
get_thread_area getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups
getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid
getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents
io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount listxattr listxattrat llistxattr _llseek
lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules lsm_set_self_attr lstat lstat64 madvise map_shadow_stack
membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap
mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat _newselect open
openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64
prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr
removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler
sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg
sendto set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups
setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid
setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown
sigaltstack signalfd signalfd4 sigprocmask sigreturn socketcall socketpair splice stat stat64 statfs statfs64 statmount
statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64
timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat uretprobe utime
utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev
""".split()  # noqa: SIM905 - four hundred quoted names would hide the list
)
"""Calls of ordinary programs."""

TRACING = frozenset(("process_vm_readv", "process_vm_writev", "ptrace"))
"""Calls that are allowed from Linux 4.8 on: before, a tracer could get around seccomp filters."""
TRACING_SINCE = (4, 8)

WITH_CAPABILITY = {
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_SYS_ADMIN": (
        "bpf clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr "
        "move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount "
        "umount2 unshare clone"
    ),
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module init_module finit_module",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace",
    "CAP_SYS_RAWIO": "iopl ioperm",
    "CAP_SYS_TIME": "settimeofday stime clock_settime clock_settime64",
    "CAP_SYS_TTY_CONFIG": "vhangup",
    "CAP_SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "CAP_SYSLOG": "syslog",
    "CAP_BPF": "bpf",
    "CAP_PERFMON": "perf_event_open",
}
"""Calls that a capability allows."""


class Architecture(Struct, frozen=True):
    """Seccomp rules that are particular to one architecture of machines."""

    filters: tuple[str, ...]
    """The architectures of programs that the kernel runs, as libseccomp names them."""
    allowed: frozenset[str] = frozenset()
    clone_flags: int = 0
    """The index of clone's argument with the flags."""


_ARM = frozenset(("arm_fadvise64_64", "arm_sync_file_range", "sync_file_range2", "breakpoint", "cacheflush", "set_tls"))
ARCHITECTURES = {
    "x86_64": Architecture(
        ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"), frozenset(("arch_prctl", "modify_ldt"))
    ),
    "i686": Architecture(("SCMP_ARCH_X86",), frozenset(("modify_ldt",))),
    "aarch64": Architecture(("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"), _ARM),
    "armv7l": Architecture(("SCMP_ARCH_ARM",), _ARM),
    "riscv64": Architecture(("SCMP_ARCH_RISCV64",), frozenset(("riscv_flush_icache", "riscv_hwprobe"))),
    "ppc64le": Architecture(("SCMP_ARCH_PPC64LE",), frozenset(("sync_file_range2", "swapcontext"))),
    "s390x": Architecture(
        ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
        frozenset(("s390_pci_mmio_read", "s390_pci_mmio_write", "s390_runtime_instr")),
        clone_flags=1,
    ),
    "loongarch64": Architecture(("SCMP_ARCH_LOONGARCH64",)),
}
"""By the names of ``uname -m``."""


def architecture_of(machine: str) -> Architecture:
    """The seccomp rules of a machine's architecture, by the machine's name (uname's); none if the name is unknown."""
    if machine.startswith("arm"):
        machine = "armv7l"  # armv6l, armv8l: a 32-bit program on any of them
    elif re.fullmatch("i[3-6]86", machine):
        machine = "i686"
    return ARCHITECTURES.get(machine, Architecture(()))
