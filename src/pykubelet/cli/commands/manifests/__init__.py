"""Commands that change or check what the node runs: manifests of pods, ConfigMaps and Secrets.

Imports no package beside it.
"""
