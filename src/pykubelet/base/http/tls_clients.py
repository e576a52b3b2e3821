"""TLS contexts of clients: which certificates of servers are accepted."""

import ssl
from functools import cache


def verifying_context(authorities: str | None = None) -> ssl.SSLContext:
    """Return a context that verifies servers by a file of authorities in PEM; None: the system's authorities.

    Blocks for some milliseconds. Raises OSError or ValueError for a file that cannot be used.

    From Python 3.13 on the default context refuses certificates without key identifiers, which RFC 5280 demands and
    many private authorities and some clouds leave out. Clients written in Go, which servers of this field are tested
    with, accept them, so this context does on every version of Python.
    """
    context = ssl.create_default_context(cafile=authorities)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@cache
def system_context() -> ssl.SSLContext:
    """Return the context for the system's authorities, as they were at the first call."""
    return verifying_context()


def plain_context(proxy: str) -> ssl.SSLContext | bool:
    """Return what verifies the way to a server without TLS: its proxy may have TLS. True: there is nothing to verify.

    ``proxy``: the proxy's URL, or empty. It may be invalid, and is not parsed: the error would have its password.
    """
    return system_context() if proxy.lower().startswith("https:") else True
