"""Service environment variables."""

from pykubelet.kubelet.actuate.cri_messages.environment.service_links import service_variables
from pykubelet.models.core_v1 import Service, ServicePort, ServiceSpec
from pykubelet.models.meta_v1 import ObjectMeta


def service(name: str, namespace: str, cluster_ip: str, *ports: ServicePort) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(cluster_ip=cluster_ip, ports=ports)
    )


API = service("kubernetes", "default", "10.96.0.1", ServicePort(name="https", port=443))
CACHE = service(
    "my-cache", "shop", "fd00::1", ServicePort(port=6379), ServicePort(name="stats-x", port=53, protocol="UDP")
)
HEADLESS = service("headless", "shop", "None", ServicePort(port=1))
EXTERNAL = service("external", "shop", "", ServicePort(port=1))
ELSEWHERE = service("elsewhere", "other", "10.96.0.9", ServicePort(port=1))
ALL = (CACHE, HEADLESS, EXTERNAL, ELSEWHERE, API)

API_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}


def test_service_links_name_the_own_namespace_and_the_api_server() -> None:
    assert service_variables(ALL, "shop", links=True) == API_VARIABLES | {
        "MY_CACHE_SERVICE_HOST": "fd00::1",
        "MY_CACHE_SERVICE_PORT": "6379",
        "MY_CACHE_SERVICE_PORT_STATS_X": "53",
        "MY_CACHE_PORT": "tcp://[fd00::1]:6379",
        "MY_CACHE_PORT_6379_TCP": "tcp://[fd00::1]:6379",
        "MY_CACHE_PORT_6379_TCP_PROTO": "tcp",
        "MY_CACHE_PORT_6379_TCP_PORT": "6379",
        "MY_CACHE_PORT_6379_TCP_ADDR": "fd00::1",
        "MY_CACHE_PORT_53_UDP": "udp://[fd00::1]:53",
        "MY_CACHE_PORT_53_UDP_PROTO": "udp",
        "MY_CACHE_PORT_53_UDP_PORT": "53",
        "MY_CACHE_PORT_53_UDP_ADDR": "fd00::1",
    }


def test_without_links_only_the_api_server() -> None:
    assert service_variables(ALL, "shop", links=False) == API_VARIABLES


def test_a_namespace_may_have_a_service_of_that_name_too() -> None:
    own = service("kubernetes", "shop", "10.96.0.77", ServicePort(port=1))
    assert service_variables((API, own), "shop", links=True)["KUBERNETES_SERVICE_HOST"] == "10.96.0.77"
    assert service_variables((own, API), "shop", links=True)["KUBERNETES_SERVICE_HOST"] == "10.96.0.77"
    assert service_variables((own, API), "shop", links=False)["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
