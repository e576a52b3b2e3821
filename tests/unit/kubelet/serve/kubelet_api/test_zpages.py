"""The pages /statusz and /flagz, as text and as objects."""

import pytest

from pykubelet.kubelet.serve.kubelet_api.plan.zpages import (
    JSON,
    TEXT,
    YAML,
    Facts,
    flags_object,
    flags_text,
    roots,
    status_object,
    status_text,
    wanted_form,
)

TARGET = ";g=config.k8s.io;v=v1beta1;as=Statusz"
FACTS = Facts(1_700_000_000.0, 1_700_003_725.9, "v1.36.0", "python3.11", ("/healthz", "/pods"))


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("text/html, */*;q=0.5", TEXT),
        ("application/json", None),
        (f"application/json{TARGET}", JSON),
        (f"application/yaml {TARGET}".replace(";", " ; "), YAML),
        ("application/json;g=config.k8s.io;v=v1beta1;as=Flagz", None),
        (f"application/json;as=Statusz, application/json{TARGET}", JSON),
        ("image/png", None),
    ],
)
def test_form_of_a_page_follows_the_accept_header(accept: str, form: str | None) -> None:
    assert wanted_form(accept, "Statusz") == form


def test_status_page_has_version_up_time_and_paths() -> None:
    assert status_object(FACTS) == {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kubelet"},
        "startTime": "2023-11-14T22:13:20Z",
        "uptimeSeconds": 3725,
        "goVersion": "python3.11",
        "binaryVersion": "v1.36.0",
        "paths": ["/healthz", "/pods"],
    }
    text = status_text(FACTS)
    assert text.startswith("\nkubelet statusz\n")
    for line in ("Up: 1 hr 02 min 05 sec", "Binary version: v1.36.0", "Paths: /healthz /pods"):
        assert f"\n{line}\n" in text


def test_flags_page_lists_flags_in_order() -> None:
    assert flags_object({"v": "4"})["flags"] == {"v": "4"}
    assert flags_text({"v": "4", "a": ""}).endswith("\na=\nv=4\n")


def test_paths_are_shown_by_their_roots() -> None:
    assert roots(["/pods", "/pods/", "/containerLogs/{x}/{y}", "/", "/healthz"]) == [
        "/containerLogs",
        "/healthz",
        "/pods",
    ]
