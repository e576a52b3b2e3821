"""The API server as a source of pods: a watch of the pods bound to this node.

After each change it passes its full set of pods to the mux, as the other sources do.
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import PODS
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.desired.sources.mux import PodMux
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import Pod


class ApiServerSource:
    """The pods of one node."""

    def __init__(self, *, client: ApiClient, node_name: str, mux: PodMux, clock: Clock) -> None:
        self.first_listed: Final = Callbacks[[]]()
        """Called after the pods have been read for the first time."""
        self._mux = mux
        self._reported = False
        query = Query(PODS.all(), ObjectSelector(fields=f"spec.nodeName={node_name}"))
        self._reflector = Reflector(client=client, query=query, deliver=self._deliver, clock=clock)

    async def run(self) -> None:
        """Watch until cancelled; pods stay desired while the API server is unavailable."""
        await self._reflector.run()

    def listed(self) -> bool:
        """Whether the API server's pods have been read at least once."""
        return self._reflector.listed

    def fault(self) -> str | None:
        """Return why the watch does not work now, or None."""
        return str(self._reflector.fault) if self._reflector.fault is not None else None

    def _deliver(self, pods: Mapping[Key, Pod]) -> None:
        unread = [each.meta for each in self._reflector.unread.values() if each.meta.uid]
        self._mux.set(Source.API, tuple(pods.values()), {PodUID(each.uid): each.deletion_timestamp for each in unread})
        if not self._reported:
            self._reported = True
            self.first_listed()
