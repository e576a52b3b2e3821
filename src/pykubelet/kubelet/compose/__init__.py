"""The composition of the five stages: their construction and the adapters between them.

With ``kubelet/main.py`` the only code that imports more than one stage. ``main.py`` builds the components in the order
of a pod's way; the modules here adapt one stage to the interfaces of another, and build what is optional: node mode,
the kubelet API server, the certificates. Start reading in ``kubelet/main.py``.
"""
