"""Texts that are IP addresses."""

import ipaddress


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IPv4 or IPv6 address; None if the text is invalid."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_ip(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    return parse_ip(text) is not None
