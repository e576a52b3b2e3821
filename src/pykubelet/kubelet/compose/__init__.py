"""The composition of the six stages: their construction, and the adapters between them.

With ``kubelet/main.py``, which runs the result, the only code that imports more than one stage. ``agent.py`` calls one
builder per stage, through ``foundation.py`` (what they share) and ``stages.py``: ``recorders.py`` and ``report.py``,
``desired.py``, ``control.py``, ``actuate.py``, ``observe.py``, ``serve.py``. ``cluster`` has node mode, ``node`` what
is known of the node, and ``local_api`` what the servers show. Components receive everything at construction, by
keyword; those that need each other share a value: the sync loop's queue, or ``Callbacks``. No rules of Kubernetes are
here. Start reading in ``agent.py``.
"""
