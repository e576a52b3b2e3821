"""Handlers of the kubelet API server. Start reading in ``info_routes.py``, whose routes both ports serve.

The others are served with the access check only. Imports beside it: ``plan``.
"""
