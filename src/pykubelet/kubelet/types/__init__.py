"""Values that the stages of the kubelet exchange, with no behaviour beyond small derivations.

Imports ``models`` and ``base``, and no stage. A stage imports what it needs from the module that defines it. Start
reading in ``runtime.py`` (the actual state) and ``updates.py`` (changes of the desired state).
"""
