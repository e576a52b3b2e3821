"""The OCI runtime (runc, crun): the calls that are programs to run."""

from pykubelet.criserver.oci.runtime import ExecResult, OciRuntime

__all__ = ["ExecResult", "OciRuntime"]
