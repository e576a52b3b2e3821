"""Every loop over items handles each one under a guard, and a test shows for each guard that one failing item does not
end the loop.

A new ``Guard("name", …)`` or ``supervise("name", …)`` is registered in ``INJECTIONS`` with the test that lets one of
its items raise and sees the others handled. A new endless loop, or loop in the ``run`` of a component, either uses a
guard or is listed in ``tests/unit/unguarded_loops.txt`` with the reason why no item can end it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "src" / "pykubelet"
UNGUARDED = Path(__file__).with_name("unguarded_loops.txt")
INJECTIONS: dict[str, str] = {
    "criserver.configuration": (
        "unit/criserver/reload/test_config_reloader.py::test_reload_that_raises_is_followed_by_others"
    ),
    "shims.log-rounds": "unit/criserver/shim/test_shim_log_files.py::test_round_that_raises_is_followed_by_others",
    "shims.logs": "unit/criserver/shim/test_shim_log_files.py::test_log_that_cannot_be_read_keeps_no_other",
    "stats.measured": "unit/criserver/server/groups/test_stats.py"
    "::test_container_that_cannot_be_measured_is_left_out_of_the_list",
    "metrics.measured": "unit/criserver/server/test_metric_calls.py"
    "::test_container_or_pod_that_cannot_be_measured_is_left_out_of_the_metrics",
    "start-up.repairs": "unit/criserver/test_repairs.py::test_failed_repair_is_quarantined_and_retried",
    "sandboxes.addresses": (
        "unit/criserver/sandbox/test_calls.py::test_address_whose_release_fails_does_not_delay_others"
    ),
    "server.connections": (
        "unit/kubelet/serve/common/test_listener.py::test_listener_goes_on_after_an_error_of_one_connection"
    ),
    "server.log-dirs": "unit/kubelet/serve/logs/test_directory_watch.py::test_error_of_the_watcher_does_not_end_it",
    "gc.containers": "unit/kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_garbage_that_raises_does_not_keep_the_rest",
    "gc.sandboxes": "unit/kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_garbage_that_raises_does_not_keep_the_rest",
    "gc.logs": "unit/kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_logs_that_cannot_be_removed_do_not_keep_the_rest",
    "gc.log-links": "unit/kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_logs_that_cannot_be_removed_do_not_keep_the_rest",
    "history.batches": "unit/kubelet/report/history/test_history.py::test_batch_that_raises_is_followed_by_others",
    "housekeeping.rounds": "unit/kubelet/control/sync/test_sync_loop.py::test_failing_pod_list_does_not_prevent_gc",
    "housekeeping.pods": "unit/kubelet/control/sync/test_sync_loop.py::test_failing_orphan_does_not_delay_others",
    "housekeeping.leftovers": "unit/kubelet/control/sync/test_sync_loop.py::test_failing_orphan_does_not_delay_others",
    "volumes.upkeep": (
        "unit/kubelet/actuate/volumes/test_upkeep.py::test_round_that_raises_fails_neither_the_pod_nor_others"
    ),
    "usage.pods": "unit/kubelet/observe/stats/test_volume_usage.py::test_failing_walk_of_a_pod_does_not_affect_others",
    "records.resources": "unit/kubelet/actuate/test_records.py"
    "::test_damaged_resource_record_keeps_no_other_from_being_read",
    "records.restarts": "unit/kubelet/actuate/test_records.py"
    "::test_damaged_restart_request_keeps_no_other_from_being_read",
    "records.userns": "unit/kubelet/actuate/test_records.py"
    "::test_damaged_user_namespace_record_keeps_no_other_from_being_read",
    "node.addresses": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "certificates": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "cgroups.levels": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "csi.directory": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "csi.plugins": "unit/kubelet/test_failing_items.py::test_plugin_that_raises_is_registered_at_last",
    "csi.releases": "unit/kubelet/actuate/volumes/csi/test_csi_manager.py"
    "::test_release_that_raises_is_tried_again_and_does_not_block_the_pod",
    "csi.sweep": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "events.delivery": "unit/kubelet/test_failing_items.py::test_event_that_raises_keeps_no_other_from_the_api_server",
    "image-gc.images": "unit/kubelet/test_failing_items.py::test_image_that_raises_keeps_no_other_from_being_removed",
    "image-gc.rounds": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "mirrors.pods": "unit/kubelet/test_failing_items.py::test_mirror_that_raises_keeps_no_other",
    "mirrors.rounds": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "node.csi": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "node.lease": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "node.reread": (
        "unit/kubelet/report/node/test_node_rereader.py"
        "::test_request_is_done_after_a_read_that_began_later_whether_it_succeeds_or_not"
    ),
    "node.status": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "objects": "unit/kubelet/test_failing_items.py::test_object_that_raises_keeps_no_other_from_being_dropped",
    "pleg.events": "unit/kubelet/test_failing_items.py::test_listener_that_raises_keeps_pleg_from_no_other_event",
    "pleg.looks": "unit/kubelet/test_failing_items.py::test_look_at_a_pod_that_raises_keeps_pleg_from_no_other",
    "pleg.pods": "unit/kubelet/test_failing_items.py::test_pod_that_raises_keeps_pleg_from_no_other",
    "pod-certificates": "unit/kubelet/test_failing_items.py::test_certificate_of_a_pod_that_raises_keeps_no_other",
    "pressure.pods": "unit/kubelet/test_failing_items.py::test_pod_whose_use_raises_keeps_no_other_from_its_limits",
    "pressure.rounds": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "runtime-health": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "runtime.events": "unit/kubelet/test_failing_items.py::test_runtime_event_that_raises_keeps_no_other",
    "sources.files": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "sources.http": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "sources.watch": "unit/kubelet/test_failing_items.py::test_watch_of_manifests_that_raises_is_begun_again",
    "status.pods": "unit/kubelet/test_failing_items.py::test_status_that_raises_is_retried_and_keeps_no_other",
    "sync-loop.events": "unit/kubelet/test_failing_items.py::test_event_that_raises_keeps_no_other_from_the_sync_loop",
    "sync-loop.pods": "unit/kubelet/test_failing_items.py::test_pod_that_raises_keeps_no_other_from_the_sync_loop",
    "tokens": "unit/kubelet/test_failing_items.py::test_token_that_raises_keeps_no_other_from_being_renewed",
    "watches": "unit/kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others",
    "workers.timers": "unit/kubelet/test_failing_items.py::test_timer_of_a_pod_that_raises_keeps_no_other_from_waking",
    "log-rotation.pods": "unit/kubelet/actuate/logs/test_log_rotation.py"
    "::test_unreadable_pod_directory_delays_no_other_log",
    "log-rotation.logs": "unit/kubelet/actuate/logs/test_log_rotation.py"
    "::test_log_that_cannot_be_rotated_delays_no_other",
    "images.list": "unit/criserver/server/groups/test_images.py::test_stored_image_that_cannot_be_shown_spoils_no_list",
    "images.blobs": "unit/criserver/images/test_damage.py::test_blob_that_cannot_be_removed_keeps_no_other_nor_a_pull",
    "images.partial-blobs": (
        "unit/criserver/images/test_damage.py::test_partial_blobs_that_cannot_be_listed_keep_no_blob_nor_a_pull"
    ),
    "layers.leftovers": "unit/criserver/storage/test_layers_damage.py::test_leftover_that_raises_keeps_no_other",
    "layers.unwanted": "unit/criserver/storage/test_layers_damage.py::test_unwanted_layer_that_raises_keeps_no_other",
    "trash.trees": "unit/criserver/storage/test_trash.py"
    "::test_tree_that_cannot_be_deleted_keeps_no_other_and_is_retried",
    "configuration.reloads": (
        "unit/kubelet/reload/test_config_reloader.py::test_reload_that_raises_is_followed_by_others"
    ),
    "configuration.components": "unit/kubelet/reload/test_config_reloader.py"
    "::test_component_that_fails_to_take_its_value_keeps_no_other_from_it",
    "configuration.watch": "unit/kubelet/reload/test_config_reloader.py::test_watch_that_raises_is_begun_again",
    "network.configuration": (
        "unit/criserver/cni/test_damage.py::test_configuration_is_looked_at_periodically_without_inotify"
    ),
    "network.status": ("unit/criserver/cni/test_network_status.py::test_status_that_raises_is_asked_again"),
    "network.firewall": "unit/criserver/cni/test_network_manager.py::test_default_network_masquerades_its_pods",
    "network.collection": ("unit/criserver/cni/test_network_status.py::test_plugins_hear_which_attachments_are_in_use"),
    "csi.limits": (
        "unit/kubelet/actuate/volumes/csi/test_limit_updates.py::test_driver_that_fails_does_not_delay_the_others"
    ),
    "firewall-chains": (
        "unit/kubelet/actuate/node/test_firewall_chains.py::test_missing_program_does_not_delay_the_other"
    ),
    "watchdog": "unit/base/daemon/test_watchdog.py::test_check_that_raises_is_followed_by_others",
    "node-shutdown.logind": "unit/kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_lost_connection_is_opened_again_and_the_lock_is_kept_meanwhile",
    "node-shutdown.pods": "unit/kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_pod_that_raises_keeps_no_other_and_no_lock",
    "node-shutdown.rounds": "unit/kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_round_that_raises_releases_the_lock",
    "supervisor.server": "unit/criserver/supervisor/test_supervisor.py::test_start_that_raises_is_retried",
    "probes": "unit/kubelet/observe/probes/test_probe_manager.py::test_a_defect_in_one_probe_stops_no_other",
    "workers.pods": "unit/kubelet/control/workers/test_worker_set.py"
    "::test_unexpected_exception_in_a_step_is_retried_and_affects_no_other_pod",
    "server.parts": "unit/criserver/test_scope.py::test_part_that_raises_is_run_again_and_keeps_no_other",
    "server.metrics": "unit/criserver/test_scope.py::test_part_that_raises_is_run_again_and_keeps_no_other",
    "containers.exits": (
        "unit/criserver/container/test_calls.py::test_watch_of_a_container_that_raises_is_begun_again"
    ),
    "sandboxes.infra": (
        "unit/criserver/sandbox/test_parts.py::test_watch_of_an_infra_process_that_raises_is_begun_again"
    ),
    "store.owed": "unit/criserver/store/test_deferred.py::test_store_idle_after_disk_full_writes_deferred_changes",
}
"""By the guard's name: the file, from ``tests/``, and the test in it, as pytest writes it."""

_UNDECIDED = re.compile(r"\b(to ?do|fix ?me|tbd)\b", re.IGNORECASE)

MODULES = [p for p in PRODUCT.rglob("*.py") if not {"pb", "models", "testing"} & set(p.relative_to(PRODUCT).parts)]


def guard_names() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node.func) in {"Guard", "supervise"}:
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: the loop's name is no literal"
                found[str(name.value)] += 1
    return found


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def endless_loops() -> Iterator[tuple[str, ast.AST]]:
    """Functions with ``while True`` or ``async for``, and any ``while`` of ``run``, as ``file:Class.function``."""
    for path in MODULES:
        for name, function in _functions(ast.parse(path.read_text()), ""):
            runs = isinstance(function, ast.AsyncFunctionDef) and function.name == "run"
            if any(_is_endless(node) or (runs and isinstance(node, ast.While)) for node in _own_nodes(function)):
                yield f"{path.relative_to(PRODUCT)}:{name}", function


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = f"{prefix}.{child.name}".lstrip(".") if named else prefix  # type: ignore[attr-defined]
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, child
        yield from _functions(child, name)


def _is_endless(node: ast.AST) -> bool:
    if isinstance(node, ast.AsyncFor):
        return True
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def is_guarded(function: ast.AST) -> bool:
    """Whether it calls a method of a guard or of supervision: ``….item(…)`` in a ``with``, or ``supervise``."""
    for node in ast.walk(function):
        if isinstance(node, ast.With):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "item":
                    return True
    return False


def unguarded() -> dict[str, str]:
    rows = (line.partition(" ") for line in UNGUARDED.read_text().splitlines() if line and not line.startswith("#"))
    return {place: reason.strip() for place, _, reason in rows}


def test_every_guard_has_a_name_of_its_own_and_a_test() -> None:
    names = guard_names()
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) == set(INJECTIONS)


@pytest.mark.parametrize("place", sorted(INJECTIONS.values()))
def test_injection_named_for_a_guard_exists(place: str) -> None:
    file, _, name = place.partition("::")
    functions = [
        node.name
        for node in ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert name in functions


def test_every_endless_loop_is_guarded_or_listed_with_a_reason() -> None:
    listed = unguarded()
    assert [place for place, reason in listed.items() if len(reason) < 20 or _UNDECIDED.search(reason)] == []
    loops = dict(endless_loops())
    bare = {place for place, function in loops.items() if not is_guarded(function)}
    assert bare - listed.keys() == set(), "use a guard, or list it in unguarded_loops.txt with the reason"
    assert listed.keys() - bare == set(), "these are guarded or gone: take them off the list"
