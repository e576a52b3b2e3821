"""Stage 6, serving: answers requests of others for what the agent knows and can do.

``local_api/`` serves kubectl and this project's CLI on this machine, ``kubelet_api/`` is the HTTPS server on :10250
for the API server and monitoring, ``streams/`` joins exec, attach and port-forward to the runtime, ``logs/`` reads
container logs, and ``common/`` is what the servers share. Imports no other stage: ``kubelet/compose`` passes in
what the handlers read and do. Start reading in ``common/serving.py``.
"""
