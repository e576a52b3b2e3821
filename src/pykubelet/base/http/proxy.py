"""The proxy of the environment for a URL, with the rules of Go's ``http.ProxyFromEnvironment``. Pure.

Source: the documentation of golang.org/x/net/http/httpproxy. Unlike Python's own rules it knows networks (CIDR) and
ports in ``NO_PROXY``, and never uses a proxy for the machine itself.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable

_PORTS = {"http": 80, "https": 443}
_REASON = 100


def proxy_for(url: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the proxy for requests to ``url``; empty: none. Raises Invalid for a proxy of another kind.

    ``HTTPS_PROXY`` is for https URLs, ``HTTP_PROXY`` for http URLs; ``NO_PROXY`` lists hosts without a proxy. Names in
    lower case are used if those in upper case are missing.
    """
    target = urlsplit(url)
    name = f"{target.scheme.upper()}_PROXY"
    if target.scheme not in _PORTS or (name == "HTTP_PROXY" and environment.get("REQUEST_METHOD")):
        return ""  # the latter: in a CGI program the variable may come from the client
    proxy = _variable(environment, name)
    port = target.port or _PORTS[target.scheme]
    if not proxy or _is_direct(target.hostname or "", port, _variable(environment, "NO_PROXY")):
        return ""
    return _proxy_url(name, proxy)


def refusal(status: int, reason: str) -> str:
    """Return the text for a proxy's answer that is no connection; aiohttp's has the proxy's URL, with its password."""
    return f"the proxy answered {status} {printable(reason[:_REASON])}".strip()


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower(), "")


def _proxy_url(name: str, text: str) -> str:
    if "://" not in text:
        text = f"http://{text}"
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in _PORTS or not rest.strip("/"):
        raise Invalid(f"{name}: the proxy {scheme}://… cannot be used, only http://HOST:PORT and https://HOST:PORT")
    return text


def _is_direct(host: str, port: int, no_proxy: str) -> bool:
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    name, wanted_port = _split_port(entry)
    if not name or (wanted_port and wanted_port != str(port)):
        return False
    wanted = _address(name)
    if wanted is not None:
        return wanted == address
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    """Split ``host:port``, ``[address]:port``, ``host`` or an address."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") != 1:
        return entry, ""
    name, _, port = entry.partition(":")
    return name, port


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
