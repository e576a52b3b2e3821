"""`PodManager`: the desired pods of the node, by uid and by name, as of the sources' last updates."""

from collections.abc import Iterable

from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.desired.objects.plan.references import references
from pykubelet.kubelet.desired.pods.plan.mirror_changes import is_mirror_of
from pykubelet.kubelet.types.ids import PodFullName, PodUID, ref_of
from pykubelet.kubelet.types.updates import is_mirror
from pykubelet.models.core_v1 import Pod


class PodManager:
    """The desired pods. The sync loop writes it, all stages read it, all from one thread.

    A mirror pod is the API server's copy of a static pod, with the same full name and a uid of its own. Mirror pods
    are stored separately, so that they are never run; `resolve` translates their uids to those of their static pods.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUID, Pod] = {}
        self._by_name: dict[PodFullName, PodUID] = {}
        self._mirrors: dict[PodUID, Pod] = {}
        self._mirror_by_name: dict[PodFullName, PodUID] = {}
        self._uses: dict[PodUID, frozenset[ObjectKey]] = {}
        self._users: dict[ObjectKey, set[PodUID]] = {}

    def set(self, pod: Pod) -> None:
        """Add a pod or mirror pod, or replace the one with the same uid."""
        ref = ref_of(pod)
        if is_mirror(pod):
            self._mirrors[ref.uid] = pod
            self._mirror_by_name[ref.full_name] = ref.uid
            return
        self._pods[ref.uid] = pod
        self._by_name[ref.full_name] = ref.uid
        self._index(ref.uid, references(pod))

    def remove(self, uid: PodUID) -> None:
        """Forget a pod or mirror pod; unknown ones are ignored."""
        for pods, by_name in ((self._pods, self._by_name), (self._mirrors, self._mirror_by_name)):
            pod = pods.pop(uid, None)
            # The name may belong to the next pod already: a changed static pod has a new uid and the old name.
            if pod is not None and by_name.get(ref_of(pod).full_name) == uid:
                del by_name[ref_of(pod).full_name]
        if uid not in self._pods:
            self._index(uid, frozenset())

    def by_uid(self, uid: PodUID) -> Pod | None:
        """Return the pod with this uid, or None; mirror pods are not found."""
        return self._pods.get(uid)

    def by_full_name(self, full_name: PodFullName) -> Pod | None:
        """Return the pod with this ``NAME_NAMESPACE``, or None."""
        uid = self._by_name.get(full_name)
        return self._pods.get(uid) if uid is not None else None

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """Return the pod with this name, or None."""
        return self.by_full_name(PodFullName(f"{name}_{namespace}"))

    def pods(self) -> tuple[Pod, ...]:
        """Return all desired pods, without mirror pods."""
        return tuple(self._pods.values())

    def uids(self) -> tuple[PodUID, ...]:
        """Return the uids of all desired pods."""
        return tuple(self._pods)

    def using(self, keys: Iterable[ObjectKey]) -> frozenset[PodUID]:
        """Return the pods that refer to one of these ConfigMaps or Secrets."""
        return frozenset(uid for key in keys for uid in self._users.get(key, ()))

    def mirror_of(self, pod: Pod) -> Pod | None:
        """Return the mirror pod of a static pod, or None; it may be outdated (see `is_mirror_of`)."""
        uid = self._mirror_by_name.get(ref_of(pod).full_name)
        return self._mirrors.get(uid) if uid is not None else None

    def pod_of_mirror(self, mirror: Pod) -> Pod | None:
        """Return the static pod of a mirror pod; None if it was removed."""
        return self.by_full_name(ref_of(mirror).full_name)

    def resolve(self, uid: PodUID) -> PodUID:
        """Return the uid of the static pod for the uid of a mirror pod, else the uid itself."""
        mirror = self._mirrors.get(uid)
        pod = self.pod_of_mirror(mirror) if mirror is not None else None
        return PodUID(pod.metadata.uid) if pod is not None else uid

    def mirrors(self) -> tuple[Pod, ...]:
        """Return all mirror pods."""
        return tuple(self._mirrors.values())

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


def current_mirror(pods: PodManager, pod: Pod) -> Pod | None:
    """Return the mirror pod that shows the current version of a static pod, or None."""
    mirror = pods.mirror_of(pod)
    return mirror if mirror is not None and is_mirror_of(mirror, pod) else None
