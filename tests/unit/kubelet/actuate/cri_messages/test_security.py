"""Security settings: precedence and rejected settings."""

import pytest

from pykubelet.kubelet.actuate.actuate_types import ImageFacts
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ConfigError,
    ContainerContext,
    IdMapping,
    SecurityConfig,
    UserNamespace,
)
from pykubelet.kubelet.actuate.cri_messages.security import (
    container_security,
    effective_security,
    sandbox_security,
    verify_non_root,
)
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_container, make_context, make_pod

RUNTIME_DEFAULT = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)
UNCONFINED = pb.SecurityProfile(profile_type=pb.SecurityProfile.Unconfined)


def localhost(ref: str) -> pb.SecurityProfile:
    return pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=ref)


def secured(
    own: Fields | None = None,
    shared: Fields | None = None,
    context: ContainerContext | None = None,
    target: str = "",
    spec: Fields | None = None,
) -> pb.LinuxContainerSecurityContext:
    pod = make_pod({"securityContext": shared or {}, **(spec or {})})
    return container_security(pod, make_container(securityContext=own or {}), context or make_context(), target)


def test_the_containers_fields_win_one_by_one() -> None:
    pod = make_pod(
        {
            "securityContext": {
                "runAsUser": 1,
                "runAsGroup": 2,
                "runAsNonRoot": True,
                "seLinuxOptions": {"level": "s0:c1"},
            }
        }
    )
    found = effective_security(pod, make_container(securityContext={"runAsUser": 0, "runAsNonRoot": False}))
    assert (found.run_as_user, found.run_as_group, found.run_as_non_root) == (0, 2, False)
    assert found.se_linux_options is not None
    assert found.se_linux_options.level == "s0:c1"
    own = effective_security(pod, make_container(securityContext={"seLinuxOptions": {"type": "t"}}))
    assert own.se_linux_options is not None
    assert (own.se_linux_options.type, own.se_linux_options.level) == ("t", "")


@pytest.mark.parametrize(
    ("own", "image", "fault"),
    [
        ({}, ImageFacts("i"), "container has runAsNonRoot and image will run as root"),
        ({}, ImageFacts("i", uid=0), "container has runAsNonRoot and image will run as root"),
        ({}, ImageFacts("i", uid=1000), None),
        (
            {},
            ImageFacts("i", username="app"),
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
        ({}, ImageFacts("i", uid=2**31), "container has runAsNonRoot and image has an invalid user id (2147483648). "),
        ({}, ImageFacts("i", uid=-1), "container has runAsNonRoot and image has an invalid user id (-1). "),
        ({"runAsUser": 0}, ImageFacts("i", uid=7), "container's runAsUser breaks non-root policy"),
        ({"runAsUser": 5}, ImageFacts("i", uid=0), None),
        ({"runAsUser": 5}, ImageFacts("i", username="root"), None),
        ({"runAsNonRoot": False}, ImageFacts("i", uid=0), None),
    ],
)
def test_run_as_non_root(own: Fields, image: ImageFacts, fault: str | None) -> None:
    pod = make_pod({"securityContext": {"runAsNonRoot": True}})
    container = make_container(securityContext=own)
    if fault is None:
        verify_non_root(pod, container, image)
        return
    with pytest.raises(ConfigError) as caught:
        verify_non_root(pod, container, image)
    assert caught.value.message.startswith(fault)
    assert caught.value.message.endswith(' (pod: "web_shop(u-1)", container: app)')


@pytest.mark.parametrize(
    ("own", "image", "user", "name"),
    [
        ({}, ImageFacts("i"), 0, ""),
        ({}, ImageFacts("i", uid=7), 7, ""),
        ({}, ImageFacts("i", username="app"), None, "app"),
        ({"runAsUser": 5}, ImageFacts("i", username="app"), 5, ""),
        ({"runAsUser": 0}, ImageFacts("i", uid=7), 0, ""),
    ],
)
def test_user_of_the_spec_goes_before_that_of_the_image(
    own: Fields, image: ImageFacts, user: int | None, name: str
) -> None:
    found = secured(own, context=make_context(image=image))
    assert (found.run_as_user.value if found.HasField("run_as_user") else None) == user
    assert found.run_as_username == name
    assert not found.HasField("run_as_group")


def test_container_without_a_security_context_is_unconfined_and_masked() -> None:
    found = container_security(make_pod(), make_container(), make_context())
    assert found.seccomp == UNCONFINED
    assert not found.HasField("apparmor")
    assert not found.HasField("capabilities")
    assert not found.HasField("selinux_options")
    assert (found.privileged, found.readonly_rootfs, found.no_new_privs) == (False, False, False)
    assert "/proc/kcore" in found.masked_paths
    assert "/proc/sys" in found.readonly_paths
    assert found.namespace_options == pb.NamespaceOption(
        network=pb.POD, ipc=pb.POD, pid=pb.CONTAINER, userns_options=pb.UserNamespace(mode=pb.NODE)
    )


def test_security_context_with_every_field_is_converted() -> None:
    found = secured(
        {
            "privileged": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "runAsGroup": 3,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
            "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "l"},
        },
        {"fsGroup": 20, "supplementalGroups": [30, 31], "supplementalGroupsPolicy": "Strict"},
        ContainerContext(image_ref="i", image=ImageFacts("i"), env={}, extra_groups=(40,)),
    )
    assert (found.privileged, found.readonly_rootfs, found.no_new_privs) == (True, True, True)
    assert found.run_as_group.value == 3
    assert found.capabilities == pb.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"])
    assert found.selinux_options == pb.SELinuxOption(user="u", role="r", type="t", level="l")
    assert list(found.supplemental_groups) == [20, 30, 31, 40]
    assert found.supplemental_groups_policy == pb.Strict


@pytest.mark.parametrize(("value", "expected"), [(None, False), (True, False), (False, True)])
def test_no_new_privs_is_set_without_privilege_escalation(value: bool | None, expected: bool) -> None:
    own: Fields = {} if value is None else {"allowPrivilegeEscalation": value}
    assert secured(own).no_new_privs is expected


def test_unmasked_proc_has_no_masked_or_read_only_paths() -> None:
    config = SecurityConfig(masked_paths=("/sys/devices/system/cpu/cpu0/thermal_throttle",))
    context = ContainerContext(image_ref="i", image=ImageFacts("i"), env={}, security=config)
    masked = secured({"procMount": "Default"}, context=context)
    assert "/sys/devices/system/cpu/cpu0/thermal_throttle" in masked.masked_paths
    unmasked = secured({"procMount": "Unmasked"}, context=context)
    assert (list(unmasked.masked_paths), list(unmasked.readonly_paths)) == ([], [])


@pytest.mark.parametrize(
    ("spec", "network", "pid", "ipc"),
    [
        ({}, pb.POD, pb.CONTAINER, pb.POD),
        ({"hostNetwork": True}, pb.NODE, pb.CONTAINER, pb.POD),
        ({"hostPID": True}, pb.POD, pb.NODE, pb.POD),
        ({"hostPID": True, "shareProcessNamespace": True}, pb.POD, pb.NODE, pb.POD),
        ({"shareProcessNamespace": True}, pb.POD, pb.POD, pb.POD),
        ({"hostIPC": True}, pb.POD, pb.CONTAINER, pb.NODE),
    ],
)
def test_host_namespaces_of_the_spec_are_those_of_container_and_sandbox(
    spec: Fields,
    network: pb.NamespaceMode.ValueType,
    pid: pb.NamespaceMode.ValueType,
    ipc: pb.NamespaceMode.ValueType,
) -> None:
    for options in (secured(spec=spec).namespace_options, sandbox_security(make_pod(spec), None, ()).namespace_options):
        assert (options.network, options.pid, options.ipc) == (network, pid, ipc)


@pytest.mark.parametrize(
    ("spec", "pid", "target"),
    [
        ({}, pb.TARGET, "c1"),
        ({"shareProcessNamespace": True}, pb.POD, ""),
        ({"hostPID": True}, pb.NODE, ""),
    ],
)
def test_ephemeral_container_joins_the_pid_namespace_of_its_target(
    spec: Fields, pid: pb.NamespaceMode.ValueType, target: str
) -> None:
    options = secured(target="c1", spec=spec).namespace_options
    assert (options.pid, options.target_id) == (pid, target)


def test_mappings_of_a_pod_with_its_own_users_are_passed_on() -> None:
    namespace = UserNamespace((IdMapping(65536, 0, 65536),), (IdMapping(131072, 0, 65536),))
    pod = make_pod({"hostUsers": False})
    options = sandbox_security(pod, namespace, ()).namespace_options.userns_options
    assert options == pb.UserNamespace(
        mode=pb.POD,
        uids=[pb.IDMapping(host_id=65536, container_id=0, length=65536)],
        gids=[pb.IDMapping(host_id=131072, container_id=0, length=65536)],
    )
    with pytest.raises(ConfigError, match="runtime does not support user namespaces"):
        sandbox_security(pod, None, ())
    for host_users in ({}, {"hostUsers": True}):
        shared = sandbox_security(make_pod(dict(host_users)), namespace, ()).namespace_options.userns_options
        assert shared == pb.UserNamespace(mode=pb.NODE)


@pytest.mark.parametrize(
    ("own", "shared", "default", "expected"),
    [
        (None, None, False, UNCONFINED),
        (None, None, True, RUNTIME_DEFAULT),
        ({"type": "Unconfined"}, {"type": "RuntimeDefault"}, True, UNCONFINED),
        (None, {"type": "RuntimeDefault"}, False, RUNTIME_DEFAULT),
        ({"type": "RuntimeDefault"}, {"type": "Unconfined"}, False, RUNTIME_DEFAULT),
        ({"type": "Localhost", "localhostProfile": "a/b.json"}, None, False, localhost("/root/seccomp/a/b.json")),
        (None, {"type": "Localhost", "localhostProfile": "p.json"}, True, localhost("/root/seccomp/p.json")),
    ],
)
def test_seccomp_profile_of_the_container_goes_before_pod_and_default(
    own: Fields | None, shared: Fields | None, default: bool, expected: pb.SecurityProfile
) -> None:
    config = SecurityConfig(seccomp_default=default, seccomp_root="/root/seccomp")
    context = ContainerContext(image_ref="i", image=ImageFacts("i"), env={}, security=config)
    found = secured({"seccompProfile": own} if own else {}, {"seccompProfile": shared} if shared else {}, context)
    assert found.seccomp == expected


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"type": "Localhost"}, "localhostProfile must be set"),
        ({"type": "Localhost", "localhostProfile": ""}, "localhostProfile must be set"),
        ({"type": "Localhost", "localhostProfile": "../../etc/x"}, "must be a path below the directory of profiles"),
        ({"type": "Localhost", "localhostProfile": "/etc/x"}, "must be a path below the directory of profiles"),
        ({"type": "Localhost", "localhostProfile": "./"}, "must be a path below the directory of profiles"),
        ({"type": "runtimeDefault"}, "unknown seccomp profile type"),
    ],
)
def test_seccomp_fails_closed(profile: Fields, message: str) -> None:
    for own, shared in (({"seccompProfile": profile}, {}), ({}, {"seccompProfile": profile})):
        with pytest.raises(ConfigError, match=message):
            secured(dict(own), dict(shared))


ANNOTATION = "container.apparmor.security.beta.kubernetes.io/app"


@pytest.mark.parametrize(
    ("own", "annotation", "shared", "expected", "old"),
    [
        (None, None, None, None, ""),
        ({"type": "RuntimeDefault"}, "unconfined", {"type": "Unconfined"}, RUNTIME_DEFAULT, "runtime/default"),
        (None, "unconfined", {"type": "RuntimeDefault"}, UNCONFINED, "unconfined"),
        (None, "runtime/default", None, RUNTIME_DEFAULT, "runtime/default"),
        (None, "localhost/prof", None, localhost("prof"), "localhost/prof"),
        (None, "nonsense", {"type": "Unconfined"}, UNCONFINED, "unconfined"),
        ({"type": "Localhost", "localhostProfile": "p"}, None, None, localhost("p"), "localhost/p"),
    ],
)
def test_apparmor_profile_of_the_container_goes_before_annotation_and_pod(
    own: Fields | None,
    annotation: str | None,
    shared: Fields | None,
    expected: pb.SecurityProfile | None,
    old: str,
) -> None:
    pod = make_pod(
        {"securityContext": {"appArmorProfile": shared} if shared else {}},
        annotations={ANNOTATION: annotation} if annotation else {},
    )
    container = make_container(securityContext={"appArmorProfile": own} if own else {})
    found = container_security(pod, container, make_context())
    assert (found.apparmor if found.HasField("apparmor") else None) == expected
    assert found.apparmor_profile == old


@pytest.mark.parametrize(
    "profile", [{"type": "Localhost"}, {"type": "Localhost", "localhostProfile": ""}, {"type": ""}]
)
def test_apparmor_fails_closed(profile: Fields) -> None:
    with pytest.raises(ConfigError, match="apparmor profile"):
        secured({"appArmorProfile": profile})


def test_security_context_of_the_pod_is_that_of_the_sandbox() -> None:
    pod = make_pod(
        {
            "securityContext": {
                "runAsUser": 1,
                "runAsGroup": 2,
                "fsGroup": 3,
                "supplementalGroups": [4],
                "supplementalGroupsPolicy": "Merge",
                "seLinuxOptions": {"level": "s0"},
                "seccompProfile": {"type": "Unconfined"},
            },
            "initContainers": [{"name": "i", "securityContext": {"privileged": True}}],
        }
    )
    assert sandbox_security(pod, None, (9,)) == pb.LinuxSandboxSecurityContext(
        namespace_options=pb.NamespaceOption(pid=pb.CONTAINER, userns_options=pb.UserNamespace(mode=pb.NODE)),
        selinux_options=pb.SELinuxOption(level="s0"),
        run_as_user=pb.Int64Value(value=1),
        run_as_group=pb.Int64Value(value=2),
        supplemental_groups=[3, 9, 4],
        privileged=True,
        seccomp=RUNTIME_DEFAULT,
    )


def test_a_group_without_a_user_is_not_for_the_sandbox() -> None:
    pod = make_pod({"securityContext": {"runAsGroup": 2}})
    assert not sandbox_security(pod, None, ()).HasField("run_as_group")
    assert container_security(pod, make_container(), make_context()).run_as_group.value == 2


def test_unknown_group_policies_are_refused() -> None:
    with pytest.raises(ConfigError, match="unsupported supplementalGroupsPolicy: Both"):
        secured(shared={"supplementalGroupsPolicy": "Both"})
