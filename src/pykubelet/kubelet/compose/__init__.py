"""The composition of the six stages: their construction, and the adapters between them.

With ``kubelet/main.py``, which runs the result, the only code that imports more than one stage. ``agent.py`` calls one
builder per stage: ``recorders.py`` and ``report.py``, ``desired.py``, ``control.py``,
``actuate.py``, ``observe.py``, ``serve.py``. ``node_mode.py`` imports what a cluster needs (``api_access.py``,
``cluster.py``, ``certificates.py``) only if there is one. Components receive everything at construction, by keyword;
those that need each other share a value: the sync loop's queue, or ``Callbacks``. No rules of Kubernetes are here.
Start reading in ``agent.py``.
"""
