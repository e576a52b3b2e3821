"""Firewall rules and directories that ``reset`` recognizes as its own."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid
from pykubelet.cli.app import cli
from pykubelet.cli.reset.plan.firewall import Removal, removal_of

_LISTING = r"""
-P PREROUTING ACCEPT
-N CNI-DN-aaaa
-N CNI-DN-bbbb
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-N DOCKER
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.88.0.0/16 ! -o pyk0 -m comment --comment "pods of pyk0" -j MASQUERADE
-A CNI-DN-aaaa -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.88.0.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"pyk0\" id: \"1\"" -m multiport --dports 80 -j CNI-DN-aaaa
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
""".strip().splitlines()
_OTHER = r'-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podman\" id: \"2\"" -j CNI-DN-bbbb'


def test_rules_and_chains_of_the_network_go_and_shared_chains_that_end_unused() -> None:
    removal = removal_of(_LISTING, {"pyk0"})
    assert [rule[1] for rule in removal.rules] == ["POSTROUTING", "PREROUTING", "OUTPUT", "POSTROUTING"]
    assert ("-D", "PREROUTING", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT") in removal.rules
    shared = ("CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK")
    assert removal.chains == ("CNI-DN-aaaa", *shared)


def test_shared_chains_stay_while_another_network_uses_them() -> None:
    removal = removal_of([*_LISTING, _OTHER], {"pyk0"})
    assert [rule[1] for rule in removal.rules] == ["POSTROUTING", "CNI-HOSTPORT-DNAT"]
    assert removal.chains == ("CNI-DN-aaaa",)
    assert removal_of([_OTHER, *_LISTING], {"none"}) == Removal()


@pytest.mark.parametrize("flag", ["--root-dir", "--run-dir"])
def test_directories_of_the_system_and_of_others_are_refused(tmp_path: Path, flag: str) -> None:
    (tmp_path / "letters").mkdir()
    for directory, why in ((Path("/usr"), "of the system"), (tmp_path, "only files of others (letters)")):
        refused = CliRunner().invoke(cli, ["reset", "--dry-run", flag, str(directory)])
        assert isinstance(refused.exception, Invalid) and why in str(refused.exception), refused.output


@pytest.mark.parametrize("flag", ["--root-dir", "--run-dir"])
@pytest.mark.parametrize("name", ["images", "pods", "storage", "checkpoints"])
def test_a_directory_with_a_common_name_in_it_is_not_taken_for_a_daemons(tmp_path: Path, flag: str, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "letter").touch()
    refused = CliRunner().invoke(cli, ["reset", "--dry-run", flag, str(tmp_path)])
    assert isinstance(refused.exception, Invalid) and "only files of others" in str(refused.exception), refused.output
