"""The calls of CRI and of image transfers: one module for each group of calls.

Start reading in ``containers.py``: ``register`` lists the calls of the group. Imports no package beside it.
"""
