"""Decides when a certificate is renewed. Pure."""

from pykubelet.apiclient.certificates.certificate_types import Contents, Template, Validity
from pykubelet.base.units import Seconds

_EARLIEST = 0.7
_SPREAD = 0.2


def rotate_at(validity: Validity, chance: float) -> Seconds:
    """Return a Unix time between 70 and 90 % of the lifetime; ``chance`` in [0, 1) spreads a cluster's nodes."""
    life = validity.not_after - validity.not_before
    return validity.not_before + life * (_EARLIEST + _SPREAD * chance)


def is_valid(validity: Validity | None, now: Seconds) -> bool:
    """Return whether a certificate has not expired.

    A certificate that begins later by this node's clock counts as valid: the clock was set back, and the API server, by
    whose clock it was signed, accepts it.
    """
    return validity is not None and now < validity.not_after


def satisfies(contents: Contents, template: Template) -> bool:
    """Return whether a certificate has all that the template asks for; it may have more."""
    return (
        contents.common_name == template.common_name
        and template.organization in contents.organizations
        and set(template.dns_names) <= set(contents.dns_names)
        and set(template.addresses) <= set(contents.addresses)
    )
