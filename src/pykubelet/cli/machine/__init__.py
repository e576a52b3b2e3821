"""The machine that commands set up: its services, missing programs, and the runtime server beside the agent.

Start reading in ``service_manager.py``. Imports beside it: ``plan``.
"""
