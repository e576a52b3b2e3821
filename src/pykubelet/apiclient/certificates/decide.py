"""When a certificate is to be renewed. Pure."""

from pykubelet.apiclient.certificates.types import Validity
from pykubelet.base.units import Seconds

_EARLIEST = 0.7
_SPREAD = 0.2


def rotate_at(validity: Validity, chance: float) -> Seconds:
    """Unix time between 70 and 90 % of its life; ``chance`` in [0, 1) spreads the nodes of a cluster."""
    life = validity.not_after - validity.not_before
    return validity.not_before + life * (_EARLIEST + _SPREAD * chance)


def is_valid(validity: Validity | None, now: Seconds) -> bool:
    """Whether a certificate has not expired. One that begins later by our clock is kept: the clock was set back, and
    the API server, by whose clock it was signed, takes it."""
    return validity is not None and now < validity.not_after
