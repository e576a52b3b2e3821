"""The OCI runtime (runc, crun): starts, updates, deletes containers and runs commands in them as programs.

``create`` is called by conmon. Used by ``conmon``, ``runtimes``, ``container``, ``streaming``. Imports of the server:
``types``. Start reading at ``runtime.py``.
"""

from pykubelet.criserver.oci.runtime import ExecResult, OciRuntime

__all__ = ["ExecResult", "OciRuntime"]
