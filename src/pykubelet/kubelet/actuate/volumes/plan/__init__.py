"""Decisions about volumes: claims, expansion, CSI migration, the files of a volume.

Pure: no module here reads files, clocks or the network, or awaits.
"""
