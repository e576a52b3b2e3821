"""The live view without a terminal: a line for each pod whose state or usage has changed."""

import time

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.live.live_options import LiveOptions
from pykubelet.cli.live.plan.figures import cores, memory
from pykubelet.cli.live.plan.live_model import LiveModel
from pykubelet.cli.live.plan.view_state import Sort, ordered
from pykubelet.cli.plan.screen_text import visible
from pykubelet.cli.plan.stable_columns import StableColumns
from pykubelet.cli.terminal import echo

_HEADINGS = ("TIME", "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "LAST EVENT")


def print_changes(options: LiveOptions, *, headed: bool) -> None:
    """Print lines until the user interrupts; an agent that is away is reported once on standard error."""
    api = LocalApi(options.socket)
    model = LiveModel(options.namespace, options.name)
    columns = StableColumns(_HEADINGS, headed=headed)
    last: dict[object, tuple[str, ...]] = {}
    is_lost = False
    while options.alive():
        try:
            model.replace_pods(api.get("/api/v1/pods")["items"])
            model.replace_events(api.get("/api/v1/events")["items"])
            model.add_usage(api.get("/pykubelet/v1/usage", maxAgeSeconds=int(options.interval)))
        except PykubeletError as error:
            if not is_lost:
                echo(f"{error}; retrying", err=True)
            is_lost = True
        else:
            if is_lost:
                echo("the agent is back", err=True)
            is_lost = False
            rows = _rows(model, options)
            changed = [cells for key, cells in rows.items() if last.get(key) != cells]
            last = rows
            if changed:
                moment = time.strftime("%H:%M:%S")
                echo(columns.render([(moment, *cells) for cells in changed]))
        time.sleep(options.interval)


def _rows(model: LiveModel, options: LiveOptions) -> dict[object, tuple[str, ...]]:
    return {
        pod.key: (
            visible(pod.key[0]),
            pod.name,
            pod.ready,
            pod.status,
            str(pod.restarts),
            cores(pod.now.cpu_nano_cores),
            memory(pod.now.memory_bytes),
            pod.events[0].reason if pod.events else "-",
        )
        for pod in ordered(model.pods, Sort(options.sort_by))
    }
