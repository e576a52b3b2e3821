"""The composition: what fits the five stages together, one module for each joint.

With ``kubelet/main.py`` the only place that knows more than one stage. ``main.py`` builds the parts in the order of a
pod's way; the modules here are the views that one stage has of another, and what is built only where it is asked for
(node mode, the node's port, the certificates).
"""
