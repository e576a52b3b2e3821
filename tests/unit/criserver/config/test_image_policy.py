"""The policy file: what is wrong in it is named with its place, and changes count without a restart."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.compose.image_policy import ConfiguredPolicy
from pykubelet.criserver.config import ImagePolicyFile
from pykubelet.criserver.images.signatures import Action
from pykubelet.testing.signing import new_signer


def _policy(tmp_path: Path, text: str) -> ConfiguredPolicy:
    (tmp_path / "policy.toml").write_text(text)
    return ConfiguredPolicy(tmp_path / "policy.toml")


def test_without_a_file_every_image_is_allowed(tmp_path: Path) -> None:
    policy = ConfiguredPolicy(tmp_path / "none" / "policy.toml")
    assert policy.rule_for("docker.io/library/app").action is Action.ALLOW


def test_rules_and_keys_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    for name in ("one", "two"):
        (tmp_path / "keys" / f"{name}.pub").write_bytes(new_signer().pem)
    policy = _policy(
        tmp_path,
        f"""
        [default]
        policy = "deny"
        [images."docker.io/library"]
        policy = "allow"
        [images."r.example:5000/team"]
        policy = "require"
        keys = ["keys/one.pub", "{tmp_path}/keys/two.pub"]
        signed_as = "vendor.example"
        [images."[::1]:5000"]
        policy = "allow"
        [images."localhost"]
        policy = "allow"
        """,
    )
    assert policy.rule_for("docker.io/library/app").action is Action.ALLOW
    assert policy.rule_for("docker.io/other/app").action is Action.DENY
    assert policy.rule_for("").action is Action.DENY
    assert policy.rule_for("[::1]:5000/x").action is Action.ALLOW
    rule = policy.rule_for("r.example:5000/team/a/b")
    assert rule.action is Action.REQUIRE and len(rule.keys) == 2
    assert rule.identity("r.example:5000/team/a/b") == "vendor.example/a/b"
    assert rule.source == f'{tmp_path}/policy.toml: images."r.example:5000/team"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", r"policy\.toml: not TOML"),
        ("[defaults]\npolicy = 'deny'", r"policy\.toml:1:2: defaults: unknown field \(did you mean default\?\)"),
        ("[default]\npolicy = 'refuse'", r"policy\.toml:2:1: default\.policy: invalid enum value 'refuse'"),
        ("[default]\nkeys = []", r"policy\.toml:1:2: default: .*missing required field `policy`"),
        ("[images.'a.b']\npolicy = 'require'\nkey = 'x'", r"images\[\.\.\.\]\.key: unknown field \(did you mean keys"),
        ("[images.'a.b']\npolicy = 'require'", r'images\."a\.b"\.keys: between 1 and 16'),
        ("[default]\npolicy = 'require'", r"default\.keys: between 1 and 16"),
        ("[default]\npolicy = 'require'\nkeys = [" + "'k'," * 17 + "]", r"default\.keys: between 1 and 16"),
        ("[default]\npolicy = 'allow'\nkeys = ['k']", r"default: keys and signed_as are for policy = \"require\" only"),
        ("[default]\npolicy = 'require'\nkeys = ['k']\nsigned_as = 'a.b'", r"default\.signed_as: .*not in the default"),
        ("[images.'a.b']\npolicy = 'require'\nkeys = ['k']\nsigned_as = 'x y'", r"signed_as: must be a registry"),
        *(
            (f"[images.'{scope}']\npolicy = 'deny'", "not a registry or a prefix of repositories")
            for scope in (
                "nginx",
                "library/nginx",
                "a.b/x:1",
                "a.b/x@sha256:1",
                "https://a.b",
                "a.b/",
                "/a",
                "a.b/X",
                "*",
            )
        ),
    ],
)
def test_mistakes_in_the_file_are_named_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        _policy(tmp_path, text).rule_for("unrelated.example/x")
    assert str(tmp_path / "policy.toml") in str(refused.value)


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "large", "text"])
def test_key_that_cannot_be_used_fails_the_images_of_its_rule_only(tmp_path: Path, kind: str) -> None:
    key = tmp_path / "k.pub"
    if kind == "directory":
        key.mkdir()
    elif kind == "fifo":
        os.mkfifo(key)
    elif kind != "missing":
        key.write_bytes(b"x" * (1 << 20) if kind == "large" else b"x")
    policy = _policy(tmp_path, "[images.'a.b']\npolicy = 'require'\nkeys = ['k.pub']")
    assert policy.rule_for("c.d/x").action is Action.ALLOW
    with pytest.raises(Invalid, match=r'policy\.toml: images\."a\.b"\.keys: .*k\.pub'):
        policy.rule_for("a.b/x")


def test_changes_of_the_file_count_at_once(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    policy = ImagePolicyFile(file)
    for number, action in enumerate(("deny", "allow", "deny"), 1):
        file.write_text(f"[default]\npolicy = '{action}'\n")
        os.utime(file, ns=(number, number))
        assert policy.rules().default.policy == action
    file.write_text("[")
    for _ in range(2):
        with pytest.raises(Invalid, match="not TOML"):
            policy.rules()
    file.unlink()
    assert policy.rules().default.policy == "allow"


@pytest.mark.parametrize("kind", ["directory", "fifo", "device", "large", "link"])
def test_file_that_is_no_policy_permits_nothing_and_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "policy.toml"
    match kind:
        case "directory":
            file.mkdir()
        case "fifo":
            os.mkfifo(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "large":
            with file.open("wb") as made:
                made.truncate(1 << 40)
        case "link":
            file.symlink_to("absent")
    policy = ConfiguredPolicy(file)
    with pytest.raises(Invalid, match=r"policy\.toml: "):
        policy.rule_for("r.example/x")
    assert len(policy.problems()) == 1


def test_problems_are_those_of_the_file_and_of_each_key(tmp_path: Path) -> None:
    (tmp_path / "good.pub").write_bytes(new_signer().pem)
    rule = "[images.'{}.example']\npolicy = 'require'\nkeys = ['{}.pub']\n"
    policy = _policy(tmp_path, rule.format("a", "good") + rule.format("b", "absent") + rule.format("c", "policy"))
    (tmp_path / "policy.pub").write_text("x")
    first, second = policy.problems()
    assert 'images."b.example".keys' in first and "absent.pub" in first
    assert 'images."c.example".keys' in second and "not a public key" in second
    assert _policy(tmp_path, rule.format("a", "good")).problems() == []
