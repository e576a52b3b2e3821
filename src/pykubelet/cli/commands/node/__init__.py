"""Commands of the daemons and their machine: run, configure, install and remove them, and their images.

Imports no package beside it.
"""
