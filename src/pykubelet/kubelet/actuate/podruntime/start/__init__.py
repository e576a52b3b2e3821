"""The start of a pod's sandbox and containers: their CRI configuration, creation, start and postStart hook.

Start reading in ``start_container.py``; ``create_sandbox.py`` comes before it. Imports beside it: ``plan``.
"""
