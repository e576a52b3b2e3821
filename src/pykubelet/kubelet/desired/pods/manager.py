"""The desired pods, by uid and by name: what the node should run, as the sources last said."""

from collections.abc import Iterable

from pykubelet.kubelet.desired.manifest.types import ObjectKey
from pykubelet.kubelet.desired.objects.references import references
from pykubelet.kubelet.types.ids import PodFullName, PodUID, ref_of
from pykubelet.kubelet.types.updates import is_mirror
from pykubelet.models.core_v1 import Pod


class PodManager:
    """Holds desired pods, written by the sync loop and read by everybody; plain look-ups, one thread.

    A mirror pod is the API server's picture of a static pod: of the same full name, with a uid of its own. Mirror
    pods are kept apart, so that none is ever run; their uids translate to those of the pods they show.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUID, Pod] = {}
        self._by_name: dict[PodFullName, PodUID] = {}
        self._mirrors: dict[PodUID, Pod] = {}
        self._mirror_by_name: dict[PodFullName, PodUID] = {}
        self._uses: dict[PodUID, frozenset[ObjectKey]] = {}
        self._users: dict[ObjectKey, set[PodUID]] = {}

    def set(self, pod: Pod) -> None:
        """Add a pod or replace the one of the same uid."""
        ref = ref_of(pod)
        if is_mirror(pod):
            self._mirrors[ref.uid] = pod
            self._mirror_by_name[ref.full_name] = ref.uid
            return
        self._pods[ref.uid] = pod
        self._by_name[ref.full_name] = ref.uid
        self._index(ref.uid, references(pod))

    def remove(self, uid: PodUID) -> None:
        """Forget a pod or mirror pod; unknown ones are fine."""
        for pods, by_name in ((self._pods, self._by_name), (self._mirrors, self._mirror_by_name)):
            pod = pods.pop(uid, None)
            # The name may belong to the next pod already: a changed static pod has a new uid and the old name.
            if pod is not None and by_name.get(ref_of(pod).full_name) == uid:
                del by_name[ref_of(pod).full_name]
        if uid not in self._pods:
            self._index(uid, frozenset())

    def by_uid(self, uid: PodUID) -> Pod | None:
        """The pod with that uid; mirror pods are not found."""
        return self._pods.get(uid)

    def by_full_name(self, full_name: PodFullName) -> Pod | None:
        """The pod of that ``NAME_NAMESPACE``."""
        uid = self._by_name.get(full_name)
        return self._pods.get(uid) if uid is not None else None

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        return self.by_full_name(PodFullName(f"{name}_{namespace}"))

    def pods(self) -> tuple[Pod, ...]:
        """All desired pods, without mirror pods."""
        return tuple(self._pods.values())

    def uids(self) -> tuple[PodUID, ...]:
        """The uids of all desired pods."""
        return tuple(self._pods)

    def using(self, keys: Iterable[ObjectKey]) -> frozenset[PodUID]:
        """The pods that refer to one of these ConfigMaps or Secrets."""
        return frozenset(uid for key in keys for uid in self._users.get(key, ()))

    def mirror_of(self, pod: Pod) -> Pod | None:
        """The mirror pod of a static pod; it may be outdated (see `decide.is_mirror_of`)."""
        uid = self._mirror_by_name.get(ref_of(pod).full_name)
        return self._mirrors.get(uid) if uid is not None else None

    def pod_of_mirror(self, mirror: Pod) -> Pod | None:
        """The static pod that a mirror pod shows; None if it is gone."""
        return self.by_full_name(ref_of(mirror).full_name)

    def resolve(self, uid: PodUID) -> PodUID:
        """The uid of the pod that runs: for a mirror pod's uid that of its static pod."""
        mirror = self._mirrors.get(uid)
        pod = self.pod_of_mirror(mirror) if mirror is not None else None
        return PodUID(pod.metadata.uid) if pod is not None else uid

    def mirrors(self) -> tuple[Pod, ...]:
        """All mirror pods."""
        return tuple(self._mirrors.values())

    def orphaned_mirrors(self) -> tuple[PodFullName, ...]:
        """Names of mirror pods whose static pod is gone: they are to be deleted at the API server."""
        return tuple(name for name in self._mirror_by_name if name not in self._by_name)

    def _index(self, uid: PodUID, keys: frozenset[ObjectKey]) -> None:
        before = self._uses.pop(uid, frozenset())
        for key in before - keys:
            self._users[key].discard(uid)
            if not self._users[key]:
                del self._users[key]
        for key in keys - before:
            self._users.setdefault(key, set()).add(uid)
        if keys:
            self._uses[uid] = keys
