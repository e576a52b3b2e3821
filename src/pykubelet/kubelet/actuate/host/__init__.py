"""Facts of this node for pods: addresses, resolver, allocatable resources, security defaults, runtime handlers.

``actuate/assembly.py`` builds them; the pod runtime, the volume manager, admission and the status read them. Imports
of this stage: ``cgroups``, ``cri_messages``. Start reading in ``facts.py``; ``runtime_facts.py`` has what the runtime
reports; ``machine_resources.py`` reads the resources from which
``types/resources/allocatable.py`` computes node allocatable.
"""

from pykubelet.kubelet.actuate.host.facts import NodeFacts, NodeOptions
from pykubelet.kubelet.actuate.host.machine_resources import read_machine, reservations
from pykubelet.kubelet.actuate.host.runtime_facts import RuntimeFacts

__all__ = ["NodeFacts", "NodeOptions", "RuntimeFacts", "read_machine", "reservations"]
