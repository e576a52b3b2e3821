"""Images: pull policies, missing images, and recovery of pods. Pulls are from a real registry."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Transient
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.images.image_gc import GcDeps, ImageGc
from pykubelet.kubelet.actuate.images.plan.image_gc import ImageDiskUse, ImageGcPolicy
from pykubelet.kubelet.report.events import EventLog
from pykubelet.testing.agent import AgentProcess, cli_command, container_status, environment, wait_for, waiting_reason
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.telemetry import telemetry
from tests.manifests import BUSYBOX, Apply, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


def _pulls(registry: Registry, repository: str) -> int:
    """Number of requests for a manifest by its tag."""
    return sum(path == f"/v2/{repository}/manifests/1" for path in registry.requests)


def test_an_image_is_pulled_once_if_it_is_not_present(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    image = registry.add("once", files={"hello": b"from the registry"})
    apply("once", pod("once", container("a", image=image), container("b", image=image)))
    seen = agent.wait_running("once")[0]
    assert agent.exec("once", "cat /hello", "b") == "from the registry"
    assert container_status(seen, "a").image == image
    assert container_status(seen, "a").image_id.startswith(image.removesuffix(":1") + "@sha256:")
    agent.wait_event("once", "Pulling", f'Pulling image "{image}"')
    agent.wait_event("once", "Pulled", f'Successfully pulled image "{image}"')
    before = _pulls(registry, "once")
    apply("again", pod("again", container(image=image)))
    agent.wait_running("again")
    agent.wait_event(
        "again", "Pulled", f'Container image "{image}" already present on machine and can be accessed by the pod'
    )
    assert _pulls(registry, "once") == before


def test_pull_policy_always_contacts_the_registry(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    image = registry.add("always", files={"always": b""})
    main = container(image=image, imagePullPolicy="Always")
    apply("always", pod("always-1", main))
    agent.wait_running("always-1")
    before = _pulls(registry, "always")
    apply("always", pod("always-2", main))
    agent.wait_running("always-2")
    assert _pulls(registry, "always") > before


def test_pull_policy_never_does_not_pull(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    image = registry.add("never", files={"never": b""})
    apply("never", pod("never", container(image=image, imagePullPolicy="Never")))
    agent.wait_pod("never", lambda p: waiting_reason(p) == "ErrImageNeverPull")
    agent.wait_event("never", "ErrImageNeverPull", "pull policy of Never")
    assert _pulls(registry, "never") == 0


def test_invalid_image_name_is_reported(agent: AgentProcess, apply: Apply) -> None:
    apply("badname", pod("badname", container(image="NOT//a:name")))
    agent.wait_pod("badname", lambda p: waiting_reason(p) == "InvalidImageName")


def test_a_missing_image_backs_off_and_recovers(
    agent: AgentProcess, apply: Apply, registry: Registry, daemon: PrivateRuntime
) -> None:
    imported, pulled = "localhost:1/absent:1", registry.reference("late")
    apply("missing", pod("import", container(image=imported)), pod("pull", container(image=pulled)))
    for name, image in (("import", imported), ("pull", pulled)):
        agent.wait_event(name, "Failed", f'Failed to pull image "{image}"')
        # Only pykubelet's server returns the word by which kubelets recognize an unavailable registry.
        unavailable = name == "import" and daemon.name == "pykubelet"
        agent.wait_event(name, "Failed", f"Error: {'RegistryUnavailable' if unavailable else 'ErrImagePull'}")
        seen = agent.wait_pod(name, lambda p: waiting_reason(p) == "ImagePullBackOff")
        agent.wait_event(name, "BackOff", f'Back-off pulling image "{image}"')
        agent.wait_event(name, "Failed", "Error: ImagePullBackOff")
        state = container_status(seen).state
        assert state is not None
        assert state.waiting is not None
        assert f'Back-off pulling image "{image}"' in state.waiting.message
        assert seen.status.phase == "Pending"
    daemon.load(ImageSpec(imported))
    registry.add("late", files={"late": b""})
    agent.wait_running("import", "pull", timeout=25)
    assert container_status(agent.pod("import")).restart_count == 0


@pytest.mark.only_on("criserver")
def test_describe_and_watch_show_the_progress_of_a_pull(
    agent: AgentProcess, apply: Apply, registry: Registry, daemon: PrivateRuntime
) -> None:
    image = registry.add("progress", files={"noise": os.urandom(4 << 20)})
    registry.hold_halfway()
    watch = subprocess.Popen(
        cli_command(agent.socket, "get", "pods", "-w"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment()},
    )
    try:
        apply("progress", pod("progress", container(image=image)))
        described = ""

        def half_is_there() -> bool:
            nonlocal described
            described = agent.cli("describe", "pod", "progress").stdout
            shown = re.search(r"Pull: +downloading \S+ of \S+ \((\d+)%\)", described)
            return shown is not None and 0 < int(shown[1]) < 100

        # Until the first half has arrived, a look may find the manifest being read, or nothing of the layer.
        wait_for(half_is_there, 20, lambda: f"{described}\n{agent.log_tail()}")
        assert watch.stdout is not None
        assert any(re.search(r"progress-.* 0/1 +Pulling \d0% +0 ", line) for line in watch.stdout)
        registry.release()
        assert any("Running" in line for line in watch.stdout if "progress-" in line)
    finally:
        registry.release()
        watch.kill()
        watch.communicate()
    assert "Pull:" not in agent.cli("describe", "pod", "progress").stdout


def test_image_commands_and_doctor_use_the_runtime_of_the_agent(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    listed = agent.cli("image", "ls")
    assert listed.returncode == 0 and BUSYBOX in listed.stdout, listed.stderr
    checked = agent.cli("doctor").stdout
    assert f"at {daemon.endpoint}" in checked, checked


@pytest.mark.only_on("criserver")
def test_rm_of_a_second_name_keeps_the_image_of_a_running_pod(
    agent: AgentProcess, apply: Apply, daemon: PrivateRuntime
) -> None:
    """The image is this test's own: other tests of the session use the same busybox by several names."""
    name = "localhost/pykubelet/named:1"
    daemon.load(ImageSpec(name, files={"named": b"x"}))
    apply("named", pod("named", container(image=name)))
    agent.wait_running("named")
    assert agent.cli("image", "tag", name, "localhost/second:2").returncode == 0
    removed = agent.cli("image", "rm", "localhost/second:2")
    assert (removed.returncode, removed.stdout) == (0, "untagged: localhost/second:2\n"), removed.stderr
    refused = agent.cli("image", "rm", name)
    assert refused.returncode == 1, refused.stdout
    assert "is used by container main of pod default/named-testnode" in refused.stderr
    assert name in agent.cli("image", "ls").stdout
    assert name not in agent.cli("image", "prune", "--all", "--dry-run").stdout


@pytest.mark.only_on("criserver")
def test_prune_of_the_agents_runtime_keeps_the_images_of_its_pods(
    agent: AgentProcess, apply: Apply, daemon: PrivateRuntime
) -> None:
    """Images that a container uses, or that only the manifest of a pod names, are kept.

    With --all only by --dry-run: the session's other tests use tagged images of no pod.
    """
    names = {each: f"localhost/pykubelet/prune-{each}:1" for each in ("used", "named", "unused")}
    for each, name in names.items():
        daemon.load(ImageSpec(name, files={each: os.urandom(200_000)}))
    missing = {"name": "missing", "configMap": {"name": "prune-missing"}}
    apply("prune", pod("used", container(image=names["used"])))
    apply("waiting", pod("waiting", container(image=names["named"]), volumes=[missing]))
    agent.wait_running("used")
    agent.wait_event("waiting", "FailedMount")
    ids = {}
    for each, name in names.items():
        (image,) = json.loads(agent.cli("image", "inspect", name).stdout)
        ids[each] = image["status"]["id"].removeprefix("sha256:")[:12]
    announced = agent.cli("image", "prune", "--all", "--dry-run").stdout
    assert f"would remove: {names['unused']} {ids['unused']}\n" in announced
    assert ids["used"] not in announced and ids["named"] not in announced
    assert names["unused"] in agent.cli("image", "ls").stdout
    for each in ("used", "unused"):
        daemon.load(ImageSpec(names[each], files={"other": each.encode()}))  # takes its name
    pruned = agent.cli("image", "prune")
    assert pruned.returncode == 0, pruned.stderr
    assert f"{ids['unused']}\n" in pruned.stdout
    assert ids["used"] not in pruned.stdout
    assert re.search(r"^\d+ images?, [\d.]+\w+ freed$", pruned.stdout, re.M), pruned.stdout
    assert agent.cli("image", "inspect", f"sha256:{ids['unused']}").returncode == 1
    assert agent.cli("image", "inspect", names["unused"]).returncode == 0


def test_unused_images_are_collected(agent: AgentProcess, apply: Apply, daemon: PrivateRuntime) -> None:
    """Thresholds make the disk appear full. Images in use, and those of sandboxes, are kept."""
    apply("user", pod("user"))
    agent.wait_running("user")
    daemon.load(ImageSpec("localhost/pykubelet/unused:1", files={"unused": b"x"}))
    before, after, reasons = asyncio.run(_collect(daemon.endpoint))
    assert "localhost/pykubelet/unused:1" in before - after
    assert BUSYBOX in after
    assert {tag for tag in before if "pause" in tag} <= after
    assert reasons == {"space"}
    apply("next", pod("next"))
    agent.wait_running("next")


@dataclass(frozen=True)
class RemovalReasons:
    """Collects the reasons of removals."""

    reasons: set[str]

    def runtime_trash(self, size: Bytes) -> None:
        assert size >= 0

    def image_collected(self, reason: str) -> None:
        self.reasons.add(reason)


async def _collect(endpoint: str) -> tuple[set[str], set[str], set[str]]:
    """Tags before and after a garbage collection on a full disk, and the reasons of removals."""
    clock, full = SystemClock(), ImageDiskUse(Bytes(1 << 40), Bytes(0))
    counted: set[str] = set()
    async with CriClient.connect(endpoint) as cri:
        before = {tag for image in await cri.list_images() for tag in image.repo_tags}
        deps = GcDeps(
            images=cri,
            users=cri,
            telemetry=telemetry(
                clock, RemovalReasons(counted), events=EventLog(clock=clock, node_name="n", find_pod=lambda uid: None)
            ),
            disk=lambda path: full,
        )
        with pytest.raises(Transient, match="Insufficient free disk space"):
            await ImageGc(deps, ImageGcPolicy(minimum_age=0)).collect()
        after = {tag for image in await cri.list_images() for tag in image.repo_tags}
    return before, after, counted
