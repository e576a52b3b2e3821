"""What the kernel tells over sockets: the process that listens on a Unix socket, and the interfaces' addresses."""

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
_DUMP = 0x301
_PEER, _LOCAL = 1, 2
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


def _read_addresses(data: bytes, found: set[str]) -> bool:
    """Add the addresses of these messages; return whether the list is complete."""
    while len(data) >= _MESSAGE.size:
        length, kind, *_ = _MESSAGE.unpack_from(data)
        body, data = data[_MESSAGE.size : length], data[_aligned(length) :]
        if kind == _DONE:
            return True
        if kind == _ERROR:
            number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
            raise OSError(number, os.strerror(number))
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
