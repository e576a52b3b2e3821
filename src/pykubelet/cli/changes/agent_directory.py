"""The agent's directory of manifests, as commands change it in their own process."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.cli.changes.check_sources import node_of
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.kubelet.desired.changes import Document, ManifestDirectory, apply_documents
from pykubelet.models.codec import to_builtins


def directory_of(api: LocalApi) -> ManifestDirectory:
    """Return the manifest directory of the running agent. Transient: no agent responds. Permanent: it has none."""
    view = api.get("/pykubelet/v1/manifests")
    kept = {key: item["file"] for item in view["items"] for key in item.get("kept", ())}
    return ManifestDirectory.of_agent(view["path"], node_name=view["nodeName"], kept=kept)


def apply_here(
    api: LocalApi, texts: Sequence[tuple[str, bytes]], *, namespace: str, dry_run: bool
) -> Mapping[str, Any]:
    """Apply documents where the agent cannot do it; return what came of it, as the agent answers.

    Errors: as of ``apply_documents``. Transient: no agent responds.
    """
    documents = [Document(origin, data) for origin, data in texts]
    view = apply_documents(documents, directory_of(api), node_of(api), namespace=namespace, dry_run=dry_run)
    answer: Any = to_builtins(view)
    return dict(answer)
