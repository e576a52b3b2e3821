"""Errors of CSI drivers; messages as in the Go kubelet: ``rpc error: code = Internal desc = …``."""

from typing import Final

from grpc import StatusCode

from pykubelet.base.errors import Transient

_INFEASIBLE: Final = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE, StatusCode.NOT_FOUND})


def code_name(code: StatusCode) -> str:
    """Name of a gRPC code as in Go."""
    return "OK" if code is StatusCode.OK else "".join(part.capitalize() for part in code.name.split("_"))


class CsiFailed(Transient):
    """A call to a driver failed. It is always retried: the storage may become available again."""

    def __init__(self, code: StatusCode, details: str) -> None:
        super().__init__(f"rpc error: code = {code_name(code)} desc = {details or 'no message'}")
        self.code = code

    @property
    def is_infeasible(self) -> bool:
        """Whether the driver can never do this, so that a retry is useless."""
        return self.code in _INFEASIBLE


class DriverMissing(Transient):
    """No driver of that name is registered on this node."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"driver name {name} not found in the list of registered CSI drivers; "
            "its node plugin has to run on this node and register below plugins_registry"
        )
