"""The syntax that Kubernetes requires of names: predicates that return a complaint, or nothing. Pure.

A complaint is ``WHAT IS WRONG; WHAT TO DO``. The forms are those of RFC 1123, RFC 6335 and the API conventions.
"""

import ipaddress
import re
from typing import Final

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_SEARCH_LABEL = re.compile(r"[a-z0-9_](?:[-_a-z0-9]*[a-z0-9_])?", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_PORT_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*", re.ASCII)
_ENV_NAME = re.compile(r"[ -<>-~]+", re.ASCII)
_HTTP_TOKEN = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_SYSCTL = re.compile(r"(?:[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?", re.ASCII)
MAX_SUBDOMAIN: Final = 253


def dns_label(value: str) -> str:
    """RFC 1123 label: container, volume and host names."""
    if len(value) > 63:
        return f"{_cut(value)} has {len(value)} characters, 63 are possible; shorten it"
    if not _LABEL.fullmatch(value):
        return f"{value!r} is no DNS label; use lower-case letters, digits and '-', a letter or digit at both ends"
    return ""


def dns_subdomain(value: str) -> str:
    """RFC 1123 subdomain: names of most objects."""
    if len(value) > MAX_SUBDOMAIN:
        return f"{_cut(value)} has {len(value)} characters, {MAX_SUBDOMAIN} are possible; shorten it"
    if not all(_LABEL.fullmatch(part) for part in value.split(".")):
        return (
            f"{value!r} is no DNS subdomain; use lower-case letters, digits, '-' and '.', "
            "a letter or digit at both ends of each part"
        )
    return ""


def search_domain(value: str) -> str:
    """A DNS search path: a subdomain that may hold underscores and end with a dot, or the root."""
    text = value.removesuffix(".")
    if value == "." or (len(text) <= MAX_SUBDOMAIN and all(_SEARCH_LABEL.fullmatch(part) for part in text.split("."))):
        return ""
    return f"{_cut(value)} is no search domain; use lower-case letters, digits, '-', '_' and '.'"


def qualified_name(value: str) -> str:
    """``[PREFIX/]NAME``: keys of labels and annotations, conditions, resources."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or dns_subdomain(prefix)):
        return f"the part before '/' in {_cut(value)} is no DNS subdomain; write PREFIX/NAME as in example.com/name"
    if not name or len(name) > 63 or not _QUALIFIED.fullmatch(name):
        return (
            f"{_cut(value)} is no qualified name; use up to 63 letters, digits, '-', '_' and '.', "
            "a letter or digit at both ends"
        )
    return ""


def label_value(value: str) -> str:
    """The value of a label; may be empty."""
    if value and (len(value) > 63 or not _QUALIFIED.fullmatch(value)):
        return (
            f"{_cut(value)} is no label value; use up to 63 letters, digits, '-', '_' and '.', "
            "a letter or digit at both ends"
        )
    return ""


def config_key(value: str) -> str:
    """A key of a ConfigMap or Secret; it becomes a file name."""
    if len(value) > MAX_SUBDOMAIN or not _CONFIG_KEY.fullmatch(value) or value == "." or value.startswith(".."):
        return f"{_cut(value)} is no key; use letters, digits, '-', '_' and '.', not '.' alone nor '..' in front"
    return ""


def env_name(value: str) -> str:
    """The name of an environment variable: printable ASCII without ``=`` (KEP-4369)."""
    return "" if _ENV_NAME.fullmatch(value) else f"{_cut(value)} is no variable name; use printable ASCII without '='"


def port_name(value: str) -> str:
    """RFC 6335 service name: 1 to 15 lower-case letters, digits and single hyphens, at least one letter."""
    if len(value) > 15 or not _PORT_NAME.fullmatch(value) or value.isdecimal():
        return (
            f"{_cut(value)} is no port name; use up to 15 lower-case letters, digits and single '-', "
            "with at least one letter"
        )
    return ""


def header_name(value: str) -> str:
    """The name of an HTTP header."""
    return "" if _HTTP_TOKEN.fullmatch(value) else f"{_cut(value)} is no HTTP header name; use letters, digits and '-'"


def sysctl_name(value: str) -> str:
    """The name of a sysctl, with dots or slashes."""
    if len(value) > MAX_SUBDOMAIN or not _SYSCTL.fullmatch(value):
        return f"{_cut(value)} is no sysctl; write it as in net.core.somaxconn"
    return ""


def ip_address(value: str) -> str:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"{_cut(value)} is no IP address"
    return ""


def relative_path(value: str) -> str:
    """A path that stays below where it starts."""
    if value.startswith("/"):
        return f"{_cut(value)} is an absolute path; write it relative"
    return no_steps_back(value)


def file_path(value: str) -> str:
    """A path of a file in a volume that the agent writes: relative, and not below its own ``..data``."""
    if complaint := relative_path(value):
        return complaint
    return f"{_cut(value)} begins with '..', which is reserved; rename it" if value.startswith("..") else ""


def no_steps_back(value: str) -> str:
    """A path without ``..``."""
    return f"{_cut(value)} contains '..'; write the path out" if ".." in value.split("/") else ""


def _cut(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")
