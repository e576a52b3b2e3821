"""Records of pulled images on disk, with the image manager: which pods may use a present image."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.kubelet.actuate.images.plan.pull_records import Policy, Verification, file_name
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import FakeImage, Fault
from pykubelet.testing.wait import until
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod

IMAGE = "r.io/app:1"
USED = 'Container image "r.io/app:1" already present on machine and can be accessed by the pod'


def private(*tags: str) -> FakeImage:
    """An image that needs the right user and password."""
    return FakeImage("sha256:1", list(tags), auth=("user", "pw"))


def publish(kit: Kit) -> None:
    kit.cri.publish_image(IMAGE, private())


def load(kit: Kit) -> FakeImage:
    """Have the image on the node, which the registry has too."""
    return kit.cri.add_image(IMAGE, private())


def files(kit: Kit, directory: str) -> dict[str, Any]:
    """The files of a directory by name."""
    path = kit.root / "image_manager" / directory
    return {each.name: json.loads(each.read_text()) for each in path.iterdir()} if path.exists() else {}


def record(kit: Kit) -> dict[str, Any]:
    (found,) = files(kit, "pulled").values()
    assert isinstance(found, dict)
    return found


async def pulls(kit: Kit, name: str, secrets: tuple[str, ...] = (), policy: str = "IfNotPresent") -> bool:
    """Ensure the image for a pod with a new agent; return whether it was pulled."""
    kit.cri.log.clear()
    assert await kit.manager().ensure(pod(name, secrets), container(IMAGE, policy), KIND) == "sha256:1"
    return bool(kit.cri.calls("PullImage"))


async def test_intent_is_written_before_the_pull_and_the_record_after_it(kit: Kit) -> None:
    publish(kit)
    kit.secrets.add("own", "r.io", "user", "pw")
    fault = kit.cri.inject(Fault("PullImage", hang=True))
    task = asyncio.create_task(kit.manager().ensure(pod("p", ["own"]), container(IMAGE), KIND))
    await until(lambda: kit.cri.calls("PullImage"))
    version = "kubelet.config.k8s.io/v1beta1"
    intent = {"kind": "ImagePullIntent", "apiVersion": version, "image": IMAGE}
    assert (files(kit, "pulling"), files(kit, "pulled")) == ({file_name(IMAGE): intent}, {})
    assert kit.recorder.counts == (1, 0)
    kit.cri.remove_fault(fault)
    await task
    assert files(kit, "pulling") == {}
    assert list(files(kit, "pulled")) == [file_name("sha256:1")]
    found = record(kit)
    (secret,) = found.pop("credentialMapping")["r.io/app"]["kubernetesSecrets"]
    assert len(secret.pop("credentialHash")) == 64
    assert secret == {"namespace": "shop", "name": "own", "uid": "uid-own"}
    assert found == {
        "kind": "ImagePulledRecord",
        "apiVersion": version,
        "lastUpdatedTime": "2023-11-14T22:13:20Z",
        "imageRef": "sha256:1",
    }
    assert kit.recorder.counts == (0, 1)


async def test_only_pods_with_the_credentials_use_a_pulled_image(kit: Kit) -> None:
    publish(kit)
    kit.secrets.add("own", "r.io", "user", "pw")
    kit.secrets.add("copy", "r.io", "user", "pw")
    kit.secrets.add("wrong", "r.io", "user", "no")
    assert await pulls(kit, "first", ("own",))
    assert not await pulls(kit, "second", ("own",))
    kit.recorder.take()
    assert not await pulls(kit, "third", ("copy",), "Never")
    assert kit.recorder.take() == [("Normal", "Pulled", USED)]
    for secrets in ((), ("wrong",)):
        error = await kit.fails(kit.manager(), pod("other", secrets), container(IMAGE))
        assert error.reason is ImageReason.ERR_IMAGE_PULL
        assert ("Normal", "Pulling", f'Pulling image "{IMAGE}"') in kit.recorder.take()
    error = await kit.fails(kit.manager(), pod("other"), container(IMAGE, "Never"))
    message = f'Container image "{IMAGE}" is not present with pull policy of Never'
    assert (error.reason, error.message) == (ImageReason.ERR_IMAGE_NEVER_PULL, message)
    assert kit.recorder.take() == [("Warning", "ErrImageNeverPull", message)]
    secrets_known = record(kit)["credentialMapping"]["r.io/app"]["kubernetesSecrets"]
    assert [each["name"] for each in secrets_known] == ["copy", "own"]
    assert set(kit.recorder.checks) == {"credentialRecordFound", "mustAuthenticate"}


async def test_rotated_secret_stays_valid(kit: Kit) -> None:
    publish(kit)
    kit.secrets.add("own", "r.io", "user", "pw")
    assert await pulls(kit, "first", ("own",))
    kit.secrets.add("own", "r.io", "user", "rotated")
    assert not await pulls(kit, "first", ("own",))
    kit.secrets.add("copy", "r.io", "user", "rotated")
    assert not await pulls(kit, "second", ("copy",))


@pytest.mark.parametrize("node", [True, False])
async def test_image_pulled_with_no_credentials_of_a_pod_is_for_all_pods(kit: Kit, tmp_path: Path, node: bool) -> None:
    if node:
        publish(kit)
        kit.node = (tmp_path / "config.json",)
        kit.node[0].write_text(json.dumps({"auths": {"r.io": {"auth": base64.b64encode(b"user:pw").decode()}}}))
    else:
        kit.cri.publish_image(IMAGE, FakeImage("sha256:1", []))
    assert await pulls(kit, "first")
    assert record(kit)["credentialMapping"] == {"r.io/app": {"nodePodsAccessible": True}}
    kit.node = ()
    assert not await pulls(kit, "second")


@pytest.mark.parametrize(
    ("verification", "preloaded", "pulled"),
    [
        (Verification(Policy.NEVER), False, False),
        (Verification(Policy.PULLED), False, True),
        (Verification(Policy.NOT_ALLOWED, ("r.io/*",)), False, False),
        (Verification(Policy.NOT_ALLOWED, ("other.io/*",)), True, True),
        (Verification(Policy.ALWAYS), True, True),
    ],
)
async def test_policy_decides_which_images_are_verified(
    kit: Kit, verification: Verification, preloaded: bool, pulled: bool
) -> None:
    kit.verification = verification
    kit.secrets.add("own", "r.io", "user", "pw")
    load(kit)
    kit.secrets.add("wrong", "r.io", "user", "no")
    assert (await verified(kit)) is preloaded
    await pulls(kit, "first", ("own",), "Always")
    assert (await verified(kit)) is pulled


async def verified(kit: Kit) -> bool:
    """Whether a pod without valid credentials cannot use the image."""
    kit.cri.log.clear()
    try:
        await kit.manager().ensure(pod("other", ("wrong",)), container(IMAGE), KIND)
    except Exception:
        assert kit.cri.calls("PullImage")
        return True
    return False


async def test_agent_killed_between_intent_and_record_verifies_the_image(kit: Kit) -> None:
    kit.secrets.add("own", "r.io", "user", "pw")
    await kit.pulled().begin(IMAGE)
    image = load(kit)  # the runtime has finished the pull
    assert (await verified(kit)) is True
    await kit.pulled().prune([pb.Image(id=image.id, repo_tags=[IMAGE])], kit.clock.now())
    assert (files(kit, "pulling"), "credentialMapping" in record(kit)) == ({}, False)
    assert (await verified(kit)) is True
    assert await pulls(kit, "first", ("own",))
    assert not await pulls(kit, "second", ("own",))


async def test_intent_of_a_failed_pull_is_removed(kit: Kit) -> None:
    publish(kit)
    await kit.fails(kit.manager(), pod("p"), container(IMAGE))
    assert (files(kit, "pulling"), files(kit, "pulled")) == ({}, {})


async def test_intent_stays_if_the_runtime_may_go_on(kit: Kit) -> None:
    publish(kit)
    kit.cri.inject(Fault("PullImage", code=StatusCode.UNAVAILABLE, details="connection lost", times=1))
    await kit.fails(kit.manager(), pod("p"), container(IMAGE))
    assert list(files(kit, "pulling")) == [file_name(IMAGE)]
    kit.cri.inject(Fault("PullImage", hang=True))
    task = asyncio.create_task(kit.manager().ensure(pod("q"), container("r.io/app:2"), KIND))
    await until(lambda: len(kit.cri.calls("PullImage")) == 2)
    task.cancel()
    await asyncio.wait((task,))
    assert set(files(kit, "pulling")) == {file_name(IMAGE), file_name("r.io/app:2")}


async def test_preloaded_image_stays_usable_whatever_becomes_of_a_pull(kit: Kit) -> None:
    kit.verification = Verification(Policy.PULLED)
    load(kit)
    manager = kit.manager()
    kit.cri.inject(Fault("PullImage", hang=True))
    hanging = asyncio.create_task(manager.ensure(pod("p"), container(IMAGE, "Always"), KIND))
    await until(lambda: kit.cri.calls("PullImage"))
    assert await manager.ensure(pod("neighbour"), container(IMAGE), KIND) == "sha256:1"
    hanging.cancel()  # its pod is removed
    await asyncio.wait((hanging,))
    assert list(files(kit, "pulling")) == [file_name(IMAGE)]
    assert await manager.ensure(pod("later"), container(IMAGE), KIND) == "sha256:1"
    assert len(kit.cri.calls("PullImage")) == 1


async def test_preloaded_image_is_verified_again_once_the_pull_has_replaced_it(kit: Kit) -> None:
    before = load(kit)
    kit.cri.inject(Fault("PullImage", code=StatusCode.UNAVAILABLE, details="connection lost", times=1))
    pulled = kit.pulled()
    manager = kit.manager(pulled=pulled)
    await kit.fails(manager, pod("p"), container(IMAGE, "Always"))
    await pulled.prune([pb.Image(id="sha256:1", repo_tags=[IMAGE])], kit.clock.now())
    assert await manager.ensure(pod("later"), container(IMAGE), KIND) == "sha256:1"
    before.tags.clear()
    kit.cri.add_image(IMAGE, FakeImage("sha256:2", [], auth=("user", "pw")))  # the runtime went on
    await kit.fails(manager, pod("q"), container(IMAGE))
    await pulled.prune([pb.Image(id="sha256:2", repo_tags=[IMAGE])], kit.clock.now())
    assert (files(kit, "pulling"), list(files(kit, "pulled"))) == ({}, [file_name("sha256:2")])
    await kit.fails(manager, pod("r"), container(IMAGE))


async def test_image_that_was_pulled_before_is_no_preloaded_one(kit: Kit) -> None:
    kit.secrets.add("own", "r.io", "user", "pw")
    publish(kit)
    assert await pulls(kit, "first", ("own",))
    kit.cri.inject(Fault("PullImage", code=StatusCode.UNAVAILABLE, details="connection lost", times=1))
    manager = kit.manager()
    await kit.fails(manager, pod("p", ("own",)), container(IMAGE, "Always"))
    await kit.fails(manager, pod("other"), container(IMAGE))


async def test_intent_that_cannot_be_written_fails_the_pull(kit: Kit) -> None:
    publish(kit)
    manager = kit.manager()
    (kit.root / "image_manager").mkdir(parents=True)
    (kit.root / "image_manager" / "pulling").write_text("")
    error = await kit.fails(manager, pod("p"), container(IMAGE))
    assert error.reason is ImageReason.ERR_IMAGE_PULL
    assert error.message.startswith(f'Failed to record image pull intent for container image "{IMAGE}": ')
    assert kit.cri.calls("PullImage") == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind":"ImagePulledRecord"}', "x" * (1 << 21)])
async def test_damaged_record_is_set_aside_and_the_image_verified(
    kit: Kit, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    publish(kit)
    kit.secrets.add("own", "r.io", "user", "pw")
    await pulls(kit, "first", ("own",))
    path = kit.root / "image_manager" / "pulled" / file_name("sha256:1")
    path.write_text(text)
    assert (await verified(kit)) is True
    assert "record of a pulled image is damaged" in caplog.messages
    (kept,) = [each for each in path.parent.iterdir() if each != path]
    assert kept.read_text() == text
    assert (await verified(kit)) is True, "the next agent knows it too"
    assert await pulls(kit, "first", ("own",))
    assert not await pulls(kit, "first", ("own",))


async def test_damaged_intent_counts_as_an_intent(kit: Kit) -> None:
    await kit.pulled().begin(IMAGE)
    (kit.root / "image_manager" / "pulling" / file_name(IMAGE)).write_text("{")
    load(kit)
    assert (await verified(kit)) is True
    assert (await verified(kit)) is True


async def test_records_that_cannot_be_read_fail_safe(kit: Kit) -> None:
    load(kit)
    kit.root.mkdir()
    (kit.root / "image_manager").write_text("")
    error = await kit.fails(kit.manager(), pod("other"), container(IMAGE))
    assert error.message.startswith("Failed to record image pull intent")
    assert kit.recorder.checks == ["error"]


async def test_records_of_removed_images_are_dropped(kit: Kit) -> None:
    publish(kit)
    kit.cri.publish_image("r.io/two:1", FakeImage("sha256:2", []))
    kit.secrets.add("own", "r.io", "user", "pw")
    manager = kit.manager()
    await manager.ensure(pod("p", ["own"]), container(IMAGE), KIND)
    await manager.ensure(pod("p"), container("r.io/two:1"), KIND)
    pulled = kit.pulled()
    await pulled.prune([], kit.clock.now())
    assert len(files(kit, "pulled")) == 2, "they are newer than the list of images"
    await kit.clock.advance(5)
    await pulled.prune([pb.Image(id="sha256:2")], kit.clock.now())
    assert list(files(kit, "pulled")) == [file_name("sha256:2")]
    assert kit.recorder.counts == (0, 1)


async def test_pull_of_a_known_image_renews_its_record(kit: Kit) -> None:
    publish(kit)
    kit.secrets.add("own", "r.io", "user", "pw")
    await pulls(kit, "first", ("own",))
    before = kit.clock.now()
    await kit.clock.advance(60)
    await pulls(kit, "first", ("own",), "Always")
    await kit.pulled().prune([], before + 30)
    assert len(files(kit, "pulled")) == 1


async def test_go_kubelets_records_are_taken_over(kit: Kit) -> None:
    load(kit)
    directory = kit.root / "image_manager" / "pulled"
    directory.mkdir(parents=True)
    secret = {"uid": "uid-own", "namespace": "shop", "name": "own", "credentialHash": "other"}
    document = {
        "kind": "ImagePulledRecord",
        "apiVersion": "kubelet.config.k8s.io/v1alpha1",
        "lastUpdatedTime": "2024-10-21T12:26:40Z",
        "imageRef": "sha256:1",
        "credentialMapping": {"r.io/app": {"kubernetesSecrets": [secret]}},
    }
    (directory / file_name("sha256:1")).write_text(json.dumps(document))
    (directory / f"{file_name('sha256:1')}.tmp").write_text("unfinished")
    assert (await verified(kit)) is True
    kit.secrets.add("own", "r.io", "user", "pw")
    assert not await pulls(kit, "first", ("own",))


async def test_changed_policy_holds_for_the_next_pod(kit: Kit) -> None:
    load(kit)
    publish(kit)
    kit.cri.log.clear()
    pulled = kit.pulled()

    async def no_credentials() -> tuple[()]:
        return ()

    assert not await pulled.must_pull(IMAGE, "sha256:1", no_credentials)
    pulled.reconfigure(Verification(Policy.ALWAYS))
    assert await pulled.must_pull(IMAGE, "sha256:1", no_credentials)
    pulled.reconfigure(Verification(Policy.NEVER))
    assert not await pulled.must_pull(IMAGE, "sha256:1", no_credentials)
