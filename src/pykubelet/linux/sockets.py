"""Reads from kernel sockets: the listeners of a Unix socket, addresses of interfaces, changes of nftables."""

import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_CREDENTIALS = struct.Struct("iII")
# rtnetlink(7): nlmsghdr, ifaddrmsg, rtattr, and the types of messages and attributes.
_MESSAGE = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBi")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR, _DONE, _NEW_ADDRESS, _GET_ADDRESSES = 2, 3, 20, 22
_REQUEST, _DUMP = 0x1, 0x301
_PEER, _LOCAL = 1, 2
# nfnetlink: the family, nfgenmsg, and the subsystem, messages and attribute of nf_tables that tell the generation.
_NETLINK_NETFILTER = 12
_NETFILTER = struct.Struct("=BBH")
_NFTABLES, _NEW_GENERATION, _GET_GENERATION, _GENERATION = 10 << 8, 15, 16, 1
_MOST = 1 << 16


def listener(path: Path) -> int:
    """The pid of the process that called listen(2) on a Unix socket; 0 if no process listens. Blocks briefly.

    The socket file alone proves nothing: a child of a dead listener may have inherited its descriptor and never accept.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        if probe.connect_ex(str(path)) != 0:
            return 0
        data = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(data)[0]
    return pid


def interface_addresses() -> frozenset[str]:
    """The IPv4 and IPv6 addresses of all network interfaces of this network namespace (rtnetlink(7)).

    Blocks briefly; raises OSError.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(5.0)
        length = _MESSAGE.size + _ADDRESS.size
        kernel.sendto(_MESSAGE.pack(length, _GET_ADDRESSES, _DUMP, 1, 0) + _ADDRESS.pack(0, 0, 0, 0, 0), (0, 0))
        found: set[str] = set()
        while not _read_addresses(kernel.recv(_MOST), found):
            pass
    return frozenset(found)


def nftables_generation() -> int:
    """A number that differs after each change of the nftables rules of this network namespace.

    The kernel answers at once. Raises OSError, for example if it has no nftables.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as kernel:
        kernel.settimeout(5.0)
        length = _MESSAGE.size + _NETFILTER.size
        kernel.sendto(
            _MESSAGE.pack(length, _NFTABLES | _GET_GENERATION, _REQUEST, 1, 0) + _NETFILTER.pack(0, 0, 0), (0, 0)
        )
        data = kernel.recv(_MOST)
    length, kind, *_ = _MESSAGE.unpack_from(data) if len(data) >= _MESSAGE.size else (0, 0)
    body = data[_MESSAGE.size : length]
    if kind == _ERROR:
        raise _failed(body)
    attributes = dict(_attributes(body[_NETFILTER.size :])) if kind == _NFTABLES | _NEW_GENERATION else {}
    if _GENERATION not in attributes:
        raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
    return int.from_bytes(attributes[_GENERATION], "big")


def _failed(body: bytes) -> OSError:
    number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
    return OSError(number, os.strerror(number))


def _read_addresses(data: bytes, found: set[str]) -> bool:
    """Add the addresses of these messages; return whether the list is complete."""
    while len(data) >= _MESSAGE.size:
        length, kind, *_ = _MESSAGE.unpack_from(data)
        body, data = data[_MESSAGE.size : length], data[_aligned(length) :]
        if kind == _DONE:
            return True
        if kind == _ERROR:
            raise _failed(body)
        if kind == _NEW_ADDRESS:
            attributes = dict(_attributes(body[_ADDRESS.size :]))
            raw = attributes.get(_LOCAL) or attributes.get(_PEER)
            if raw is not None and len(raw) in (4, 16):
                found.add(str(ipaddress.ip_address(raw)))
    return False


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
