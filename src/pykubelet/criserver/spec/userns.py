"""User namespaces of pods: validates the requests, and builds the id mappings (KEP-127). Pure."""

from collections.abc import Sequence

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.criserver.types import IdMap
from pykubelet.pb import runtime_v1_pb2 as pb

_IDS = 2**32 - 1


def id_map(options: pb.NamespaceOption) -> IdMap | None:
    """The id map of the pod's own user namespace; None: the node's. Invalid names the problem in the request."""
    wanted = options.userns_options
    if not options.HasField("userns_options") or wanted.mode == pb.NODE:
        return None
    if wanted.mode != pb.POD:
        raise Invalid(f"a user namespace can be the pod's or the node's, not {_name(wanted.mode)}")
    for kind, mode in (("PID", options.pid), ("IPC", options.ipc)):
        if mode == pb.NODE:
            raise Invalid(f"a pod with a user namespace cannot use the node's {kind} namespace")
    (uid, uids), (gid, gids) = _range(wanted.uids, "user"), _range(wanted.gids, "group")
    return IdMap(uid, gid, uids, gids)


def _name(mode: "pb.NamespaceMode.ValueType") -> str:
    value = pb.NamespaceMode.DESCRIPTOR.values_by_number.get(mode)
    return value.name if value is not None else str(mode)


def check_container(options: pb.NamespaceOption, of_pod: IdMap | None) -> None:
    """Raise Invalid if a container requests a user namespace other than its pod's."""
    if options.HasField("userns_options") and id_map(options) != of_pod:
        raise Invalid("a container cannot have a user namespace other than its sandbox's")


def mappings(ids: IdMap) -> Json:
    """Build the mapping fields of ``linux`` in the OCI spec."""
    return {
        "uidMappings": [{"containerID": 0, "hostID": ids.uid, "size": ids.uids}],
        "gidMappings": [{"containerID": 0, "hostID": ids.gid, "size": ids.gids}],
    }


def check_mount(mount: pb.Mount, of_pod: IdMap | None) -> bool:
    """Whether a mount must be ID-mapped to the pod's ids. Invalid: it requests other ids."""
    if not mount.uidMappings and not mount.gidMappings:
        return False
    where = f"mount {mount.container_path}"
    if of_pod is None:
        raise Invalid(f"{where} has mapped ids, but its pod has no user namespace")
    found = (*_range(mount.uidMappings, f"{where}: user"), *_range(mount.gidMappings, f"{where}: group"))
    if found != (of_pod.uid, of_pod.uids, of_pod.gid, of_pod.gids):
        raise Invalid(f"{where}: only the ids of the pod's user namespace can be mapped")
    return True


def _range(asked: Sequence[pb.IDMapping], what: str) -> tuple[int, int]:
    if len(asked) != 1:
        raise Invalid(f"{what} ids: exactly one mapping is supported, not {len(asked)}")
    (mapping,) = asked
    if mapping.container_id != 0:
        raise Invalid(f"{what} ids: the mapping must begin at 0 in the container, not {mapping.container_id}")
    if not mapping.length or mapping.host_id + mapping.length > _IDS:
        raise Invalid(f"{what} ids: {mapping.length} from {mapping.host_id} on is not a valid range of ids")
    return mapping.host_id, mapping.length
