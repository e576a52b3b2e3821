"""The commands, one module for each, imported on use; ``cli/app.py`` has the table of them.

``node`` has those of the daemons and their machine, ``manifests`` those that change what is wanted, ``pods`` those that
show pods or act in them.
"""
