"""``pykubelet reset``: what an agent and its runtime server leave on a machine, found and removed part by part.

Each part finds its items when its turn has come, since the removal of one part takes items of the next along: a pod its
mounts and its links. Used by ``cli/commands/node/reset.py``. Start reading in ``parts.py``, which lists the parts in
the order of their removal. Imports beside it: ``client``, ``plan``.
"""
