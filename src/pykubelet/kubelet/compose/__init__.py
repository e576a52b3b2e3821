"""The composition of the six stages: their construction, and the adapters between them.

With ``kubelet/main.py``, which runs the result, the only code that imports more than one stage. ``foundation.py``
builds what the stages share. Each stage has a module with one builder, which is called once, in this order:
``actuate.py``, ``report.py``, ``observe.py``, ``desired.py``, ``control.py`` (by ``stages.py``) and ``serve.py`` (by
``agent.py``). ``cluster`` has node mode, ``node`` what is known of the node, and ``local_api`` what the servers show.
Components receive everything at construction, by keyword; those that need each other share a value of the foundation,
or ``Callbacks``. No rules are here: adapters pass on what packages named ``plan`` have decided. Start reading in
``stages.py``.
"""
