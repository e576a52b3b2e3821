"""What the stages of the kubelet say to each other: values only, no behaviour beyond small derivations.

Nothing here imports a stage. A stage imports what it needs from the module that defines it.
"""
