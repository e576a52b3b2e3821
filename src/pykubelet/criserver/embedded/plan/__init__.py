"""The agent's decision on a runtime server that it finds.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``criserver.embedded``; start reading in
``adoption.py``.
"""
