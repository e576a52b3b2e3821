"""Docker's credential helpers: which one is asked, and real programs that answer, fail, flood and hang."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.docker_helpers import Helper, HelperLogin, ask_helper, helper_for
from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.testing.wait import until

HUB = "https://index.docker.io/v1/"


@pytest.mark.parametrize(
    ("document", "host", "expected"),
    [
        ({}, "r.io", None),
        ({"credHelpers": None, "credsStore": ""}, "r.io", None),
        ({"credHelpers": {"r.io": "ecr-login"}}, "r.io", Helper("ecr-login", "r.io")),
        ({"credHelpers": {"r.io": "ecr-login"}}, "r.io:5000", None),
        ({"credHelpers": {"r.io": "ecr-login"}, "credsStore": "pass"}, "r.io", Helper("ecr-login", "r.io")),
        ({"credHelpers": {"r.io": "ecr-login"}, "credsStore": "pass"}, "other", Helper("pass", "other")),
        ({"credsStore": "pass"}, "docker.io", Helper("pass", HUB)),
        ({"credHelpers": {"docker.io": "a"}}, "docker.io", Helper("a", "docker.io")),
        ({"credHelpers": {HUB: "a", "docker.io": "b"}}, "docker.io", Helper("a", HUB)),
        ({"credHelpers": {"index.docker.io": "a"}}, "docker.io", Helper("a", "index.docker.io")),
    ],
)
def test_helper_is_chosen_as_by_docker(document: dict[str, Any], host: str, expected: Helper | None) -> None:
    assert helper_for(document, host) == expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"credHelpers": ["pass"]}, "credHelpers: must map registries to names of helpers"),
        ({"credHelpers": {"r.io": 1}}, "credHelpers: must map"),
        ({"credsStore": ["pass"]}, "credsStore: must be the name"),
        ({"credsStore": "../../bin/sh"}, "credsStore: '../../bin/sh' is not the name of a helper; write for example"),
        ({"credHelpers": {"r.io": "a b"}}, "credHelpers: 'a b' is not the name of a helper"),
    ],
)
def test_malformed_configuration_names_the_field(document: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        helper_for(document, "r.io")
    assert str(caught.value).startswith(message)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path at which the program of the helper ``test`` has to be."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "docker-credential-test"


def write(program: Path, body: str) -> None:
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


async def test_helper_gets_the_registry_and_gives_a_login(program: Path) -> None:
    answer = '{"ServerURL":"r.io","Username":"anna","Secret":"pw"}'
    write(program, f'cat >"$0.log"; echo "$@" >>"$0.log"; echo \'{answer}\'')
    assert await ask_helper(Helper("test", "r.io")) == HelperLogin("anna", "pw", "")
    assert program.with_name("docker-credential-test.log").read_text() == "r.io\nget\n"


async def test_token_is_an_identity_token(program: Path) -> None:
    write(program, """echo '{"Username":"<token>","Secret":"refresh"}'""")
    found = await ask_helper(Helper("test", "r.io"))
    assert found == HelperLogin("", "", "refresh")
    assert "refresh" not in repr(found)


async def test_helper_without_a_login_for_the_registry_returns_no_credentials(program: Path) -> None:
    write(program, "echo credentials not found in native keychain; exit 1")
    assert await ask_helper(Helper("test", "r.io")) is None


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("echo secret-word; echo locked >&2; exit 2", Permanent, "test ended with exit code 2: locked"),
        ("echo secret-word; exit 2", Permanent, "ended with exit code 2"),
        ("exec yes secret-word", Permanent, "printed more than 1 MiB and was killed"),
        ("echo secret-word", Invalid, "its output is not the JSON of a login"),
        ('echo \'{"Username":["secret-word"]}\'', Invalid, "its output is not the JSON of a login"),
        ("", Invalid, "its output is not the JSON of a login"),
        ("exec sleep 1000", Transient, "did not end within 0.5 s and was killed"),
    ],
)
async def test_failing_helper_is_an_error_without_its_output(
    program: Path, body: str, kind: type[PykubeletError], message: str
) -> None:
    write(program, body)
    deadline = 0.5 if "sleep" in body else 60.0
    with pytest.raises(kind) as caught:
        await ask_helper(Helper("test", "r.io"), deadline=deadline)
    assert message in str(caught.value)
    assert "secret-word" not in str(caught.value)


async def test_missing_helper_is_named(program: Path) -> None:
    with pytest.raises(NotFound, match="docker-credential-test is not installed in the directories of PATH"):
        await ask_helper(Helper("test", "r.io"))


@pytest.mark.parametrize("end", ["exec sleep 1000", "exit 3", """echo '{"Username":"anna","Secret":"pw"}'"""])
async def test_helper_leaves_no_process_behind(program: Path, end: str) -> None:
    write(program, f'sleep 1000 >/dev/null 2>&1 &\necho $! >"$0.left"\n{end}')
    with suppress(PykubeletError):
        await ask_helper(Helper("test", "r.io"), deadline=1.0 if "sleep" in end else 60.0)
    left = int(program.with_name("docker-credential-test.left").read_text())
    await until(lambda: not Path(f"/proc/{left}").exists())
