"""The image policy on a real agent: unsigned and wrongly signed images are refused, the right one runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, container_status, waiting_reason
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.registry import Registry
from pykubelet.testing.signing import Signer, claim, new_signer
from tests.manifests import Apply, Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_TITLE = "org.opencontainers.image.title"
_SIGNER, _OTHER = new_signer(), new_signer()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path) as registry:
        yield registry


@pytest.fixture
def policy(daemon: PrivateCriServer, registry: Registry) -> Iterator[Path]:
    """The policy file, which requires a signature of the images in ``team`` of the registry."""
    key, file = daemon.home / "team.pub", daemon.home / "image-policy.toml"
    key.write_bytes(_SIGNER.pem)
    file.write_text(f'[images."{registry.host}/team"]\npolicy = "require"\nkeys = ["team.pub"]\n')
    yield file
    file.unlink()
    key.unlink()


def _image(registry: Registry, name: str) -> tuple[str, str]:
    """An image and its digest."""
    reference = registry.add(f"team/{name}", files={"name": name.encode()})
    return reference, registry.digest(f"team/{name}", "1")


def _sign(registry: Registry, name: str, payload: bytes, signer: Signer = _SIGNER) -> None:
    registry.add_signature(f"team/{name}", registry.digest(f"team/{name}", "1"), payload, signer.sign(payload))


def _pod(name: str, image: str) -> Json:
    return pod(name, container(image=image, imagePullPolicy="Always"))


@pytest.mark.usefixtures("policy")
def test_only_images_with_a_right_signature_run(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    images = {name: _image(registry, name) for name in ("unsigned", "foreign", "digest", "name", "signed")}
    repository = {name: reference.rpartition(":")[0] for name, (reference, _) in images.items()}
    _sign(registry, "foreign", claim(repository["foreign"], images["foreign"][1]), _OTHER)
    _sign(registry, "digest", claim(repository["digest"], images["signed"][1]))
    _sign(registry, "name", claim(repository["signed"], images["name"][1]))
    _sign(registry, "signed", claim(repository["signed"], images["signed"][1]))
    elsewhere = registry.add("other/app", files={"name": b"elsewhere"})
    pods = [_pod(name, reference) for name, (reference, _) in images.items()]
    apply("policy", *pods, _pod("elsewhere", elsewhere))
    agent.wait_running("signed", "elsewhere", timeout=60)
    assert agent.exec("signed", "cat /name") == "signed"
    reasons = {
        "unsigned": "none was found",
        "foreign": "by none of the keys",
        "digest": "another digest",
        "name": "another repository",
    }
    for name, why in reasons.items():
        event = agent.wait_event(name, "Failed", why)
        agent.wait_event(name, "Failed", "Error: SignatureValidationFailed")
        assert f'images."{registry.host}/team"' in event.message, "it names the rule"
        agent.wait_pod(name, lambda pod: waiting_reason(pod) in ("SignatureValidationFailed", "ImagePullBackOff"))
    assert not [path for path in registry.requests if "team/unsigned/blobs/" in path]


def test_image_that_is_present_needs_the_signature_of_a_stricter_policy(
    agent: AgentProcess, apply: Apply, registry: Registry, policy: Path
) -> None:
    """At the creation of a container; a pull that finds the signature permits it."""
    rules = policy.read_text()
    policy.write_text("")
    reference, digest = _image(registry, "early")
    apply("early", pod("early", container(image=reference)))
    agent.wait_running("early", timeout=60)
    policy.write_text(rules)
    apply("late", pod("late", container(image=reference, imagePullPolicy="Never")))
    seen = agent.wait_pod("late", lambda pod: waiting_reason(pod) == "CreateContainerError")
    state = container_status(seen).state
    assert state is not None and state.waiting is not None
    assert "SignatureValidationFailed" in (state.waiting.message or "") and "pull it again" in state.waiting.message
    assert agent.exec("early", "cat /name") == "early", "what runs goes on"

    _sign(registry, "early", claim(reference.rpartition(":")[0], digest))
    apply("again", _pod("again", reference))
    agent.wait_running("again", timeout=60)


@pytest.mark.usefixtures("policy")
def test_artifact_of_a_volume_needs_a_signature_too(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    pods = []
    for name in ("model", "unsigned-model"):
        blob = registry.describe(f"{name} {registry.host}".encode(), "text/plain", **{_TITLE: "own"})
        reference = registry.add_artifact(f"team/{name}", [blob])
        volumes = [{"name": "v", "image": {"reference": reference}}]
        pods.append(pod(name, container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), volumes=volumes))
    _sign(registry, "model", claim(f"{registry.host}/team/model", registry.digest("team/model", "1")))
    apply("models", *pods)
    agent.wait_running("model", timeout=60)
    assert agent.exec("model", "cat /v/own") == f"model {registry.host}"
    agent.wait_event("unsigned-model", "Failed", "none was found")


def test_doctor_names_a_policy_that_cannot_be_used(agent: AgentProcess, registry: Registry, policy: Path) -> None:
    rules = policy.read_text()
    assert "server's files" not in agent.cli("doctor").stdout
    policy.write_text(rules.replace("team.pub", "absent.pub"))
    done = agent.cli("doctor")
    assert done.returncode == 1
    assert f'images."{registry.host}/team".keys' in done.stdout and "absent.pub" in done.stdout
    policy.write_text("[")
    done = agent.cli("doctor")
    assert done.returncode == 1
    assert f"{policy}: not TOML" in done.stdout
    policy.write_text(rules)
    assert "server's files" not in agent.cli("doctor").stdout
