"""Common parts of all servers: listeners, limits, request slots, responses, health checks and the view of pods.

Start reading in ``serving.py``: it puts an application together from limits, access check, routes and request slots.
Imports beside it: ``streams``.
"""
