"""Objects to check, and findings of a check."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.kubelet.desired.manifest.manifest_types import Manifest, Problem


class Severity(StrEnum):
    """Whether the pod cannot run as it is, or only might not do what its author expects."""

    ERROR = "error"
    WARNING = "warning"


class Rule(StrEnum):
    """Kind of a finding; the value is its stable name for programs."""

    INVALID_MANIFEST = "invalid-manifest"
    DUPLICATE_OBJECT = "duplicate-object"
    IMAGE_REFERENCE = "image-reference"
    MISSING_OBJECT = "missing-object"
    HOST_PORT = "host-port"
    NODE_SELECTOR = "node-selector"
    NODE_RESOURCES = "node-resources"
    EXTENDED_RESOURCE = "extended-resource"
    RUNTIME_CLASS = "runtime-class"
    NODE_FEATURE = "node-feature"

    @property
    def description(self) -> str:
        """The requirement of the rule on a manifest, as a sentence."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Rule.INVALID_MANIFEST: "A manifest holds valid Pods, ConfigMaps and Secrets.",
    Rule.DUPLICATE_OBJECT: "Each object is defined once.",
    Rule.IMAGE_REFERENCE: "Each image has a valid reference.",
    Rule.MISSING_OBJECT: "The ConfigMaps and Secrets that a pod uses, and the keys it names, exist.",
    Rule.HOST_PORT: "No two pods use the same host port.",
    Rule.NODE_SELECTOR: "The node matches the pod's node selector and required node affinity.",
    Rule.NODE_RESOURCES: "The node has the resources that the pods request.",
    Rule.EXTENDED_RESOURCE: "The extended resources that a pod requests are registered on the node.",
    Rule.RUNTIME_CLASS: "The container runtime has a handler for the pod's RuntimeClass.",
    Rule.NODE_FEATURE: "The node supports what the pod requires.",
}


class CheckSource(Struct, frozen=True):
    """A manifest to check."""

    manifest: Manifest
    """Parsed with positions, so that findings have lines."""
    path: str = ""
    """Absolute path of the file that the manifest is, or will be; empty: it has none. The node's objects from this file
    are not compared with it, since it replaces them."""


class FileLine(Struct, frozen=True):
    """A line of a file, from 1; 0: not known."""

    origin: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.origin}:{self.line}" if self.line else self.origin


class CheckFinding(Struct, frozen=True):
    """A violated rule; ``related`` are the other places that it concerns, such as the first definition of an object."""

    rule: Rule
    severity: Severity
    problem: Problem
    related: tuple[FileLine, ...] = ()

    def __str__(self) -> str:
        """Return one line for display: place, severity, object, field, message and remedy."""
        return self.problem.described(str(self.severity))
