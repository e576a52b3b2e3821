"""The loops of the product that have a guard, each with the test in which an item of the loop raises.

``conftest.py`` fails such a test if no exception was counted for the loop while it ran.
"""

INJECTIONS: dict[str, str] = {
    "criserver.configuration": (
        "criserver/reload/test_config_reloader.py::test_reload_that_raises_is_followed_by_others"
    ),
    "shims.log-rounds": "criserver/shim/test_shim_log_files.py::test_round_that_raises_is_followed_by_others",
    "shims.logs": "criserver/shim/test_shim_log_files.py::test_log_that_cannot_be_read_keeps_no_other",
    "stats.cgroups": "kubelet/observe/stats/test_node_usage.py::test_pod_that_cannot_be_measured_is_left_out[cgroup]",
    "stats.pods": "kubelet/observe/stats/test_node_usage.py::test_pod_that_cannot_be_measured_is_left_out[read]",
    "stats.measured": "criserver/server/cri_calls/test_stats.py"
    "::test_container_that_cannot_be_measured_is_left_out_of_the_list",
    "metrics.measured": "criserver/server/test_metric_calls.py"
    "::test_container_or_pod_that_cannot_be_measured_is_left_out_of_the_metrics",
    "start-up.repairs": "criserver/test_repairs.py::test_failed_repair_is_quarantined_and_retried",
    "sandboxes.addresses": ("criserver/sandbox/test_calls.py::test_address_whose_release_fails_does_not_delay_others"),
    "server.connections": (
        "kubelet/serve/common/test_listener.py::test_listener_goes_on_after_an_error_of_one_connection"
    ),
    "server.log-dirs": "kubelet/serve/logs/test_directory_watch.py::test_error_of_the_watcher_does_not_end_it",
    "gc.containers": "kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_garbage_that_raises_does_not_keep_the_rest[_remove_dead]",
    "gc.sandboxes": "kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_garbage_that_raises_does_not_keep_the_rest[_remove_sandbox]",
    "gc.logs": "kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_logs_that_cannot_be_removed_do_not_keep_the_rest[remove_dir]",
    "gc.log-links": "kubelet/actuate/podruntime/test_garbage_collection.py"
    "::test_logs_that_cannot_be_removed_do_not_keep_the_rest[drop]",
    "history.batches": "kubelet/report/history/test_history.py::test_batch_that_raises_is_followed_by_others",
    "housekeeping.rounds": "kubelet/control/sync/test_sync_loop.py::test_failing_pod_list_does_not_prevent_gc",
    "housekeeping.pods": "kubelet/control/sync/test_sync_loop.py::test_failing_orphan_does_not_delay_others",
    "housekeeping.leftovers": "kubelet/control/sync/test_sync_loop.py::test_failing_orphan_does_not_delay_others",
    "volumes.upkeep": (
        "kubelet/actuate/volumes/test_upkeep.py::test_round_that_raises_fails_neither_the_pod_nor_others"
    ),
    "usage.pods": "kubelet/observe/stats/test_volume_usage.py::test_failing_walk_of_a_pod_does_not_affect_others",
    "records.resources": "kubelet/actuate/test_records.py::test_damaged_resource_record_keeps_no_other_from_being_read",
    "records.restarts": "kubelet/actuate/test_records.py::test_damaged_restart_request_keeps_no_other_from_being_read",
    "records.userns": "kubelet/actuate/test_records.py"
    "::test_damaged_user_namespace_record_keeps_no_other_from_being_read",
    "node.addresses": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[node.addresses]",
    "certificates": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[certificates]",
    "cgroups.levels": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[cgroups.levels]",
    "csi.directory": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[csi.directory]",
    "csi.plugins": "kubelet/test_failing_items.py::test_plugin_that_raises_is_registered_at_last",
    "csi.releases": "kubelet/actuate/volumes/csi/test_csi_manager.py"
    "::test_release_that_raises_is_tried_again_and_does_not_block_the_pod",
    "csi.sweep": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[csi.sweep]",
    "events.delivery": "kubelet/test_failing_items.py::test_event_that_raises_keeps_no_other_from_the_api_server",
    "image-gc.images": "kubelet/test_failing_items.py::test_image_that_raises_keeps_no_other_from_being_removed",
    "image-gc.rounds": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[image-gc.rounds]",
    "admission.others": "kubelet/desired/admission/test_admission_manager.py"
    "::test_running_pod_with_a_malformed_request_rejects_no_other",
    "admission.rejected": "kubelet/desired/admission/test_admission_manager.py"
    "::test_rejected_pod_that_raises_keeps_no_other_from_being_admitted",
    "resizes.ranks": "kubelet/desired/admission/test_resizes.py"
    "::test_resize_that_raises_keeps_no_other_and_is_retried[rank]",
    "resizes.pods": "kubelet/desired/admission/test_resizes.py"
    "::test_resize_that_raises_keeps_no_other_and_is_retried[resize_summary]",
    "mirrors.pods": "kubelet/test_failing_items.py::test_mirror_that_raises_keeps_no_other",
    "mirrors.rounds": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[mirrors.rounds]",
    "node.csi": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[node.csi]",
    "node.lease": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[node.lease]",
    "node.reread": (
        "kubelet/report/node/test_node_rereader.py"
        "::test_request_is_done_after_a_read_that_began_later_whether_it_succeeds_or_not"
    ),
    "node.status": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[node.status]",
    "objects": "kubelet/test_failing_items.py::test_object_that_raises_keeps_no_other_from_being_dropped",
    "pleg.events": "kubelet/test_failing_items.py::test_listener_that_raises_keeps_pleg_from_no_other_event",
    "pleg.looks": "kubelet/test_failing_items.py::test_look_at_a_pod_that_raises_keeps_pleg_from_no_other",
    "pleg.pods": "kubelet/test_failing_items.py::test_pod_that_raises_keeps_pleg_from_no_other",
    "pod-certificates": "kubelet/test_failing_items.py::test_certificate_of_a_pod_that_raises_keeps_no_other",
    "pod-certificates.results": "kubelet/desired/objects/test_pod_certificates.py"
    "::test_malformed_certificate_keeps_no_other_pod_from_its_own",
    "pressure.pods": "kubelet/test_failing_items.py::test_pod_whose_use_raises_keeps_no_other_from_its_limits",
    "pressure.rounds": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[pressure.rounds]",
    "runtime-health": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[runtime-health]",
    "runtime.events": "kubelet/test_failing_items.py::test_runtime_event_that_raises_keeps_no_other",
    "sources.files": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[sources.files]",
    "sources.http": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[sources.http]",
    "sources.watch": "kubelet/test_failing_items.py::test_watch_of_manifests_that_raises_is_begun_again",
    "status.pods": "kubelet/test_failing_items.py::test_status_that_raises_is_retried_and_keeps_no_other",
    "sync-loop.events": "kubelet/test_failing_items.py::test_event_that_raises_keeps_no_other_from_the_sync_loop",
    "sync-loop.pods": "kubelet/test_failing_items.py::test_pod_that_raises_keeps_no_other_from_the_sync_loop",
    "tokens": "kubelet/test_failing_items.py::test_token_that_raises_keeps_no_other_from_being_renewed",
    "watches": "kubelet/test_failing_items.py::test_round_that_raises_is_followed_by_others[watches]",
    "workers.timers": "kubelet/test_failing_items.py::test_timer_of_a_pod_that_raises_keeps_no_other_from_waking",
    "log-rotation.pods": "kubelet/actuate/logs/test_log_rotation.py::test_unreadable_pod_directory_delays_no_other_log",
    "log-rotation.logs": "kubelet/actuate/logs/test_log_rotation.py::test_log_that_cannot_be_rotated_delays_no_other",
    "images.list": "criserver/server/cri_calls/test_images.py::test_stored_image_that_cannot_be_shown_spoils_no_list",
    "images.blobs": "criserver/images/test_damage.py::test_blob_that_cannot_be_removed_keeps_no_other_nor_a_pull",
    "images.partial-blobs": (
        "criserver/images/test_damage.py::test_partial_blobs_that_cannot_be_listed_keep_no_blob_nor_a_pull"
    ),
    "layers.leftovers": "criserver/storage/test_layers_damage.py::test_leftover_that_raises_keeps_no_other",
    "layers.unwanted": "criserver/storage/test_layers_damage.py::test_unwanted_layer_that_raises_keeps_no_other",
    "trash.trees": "criserver/storage/test_trash.py::test_tree_that_cannot_be_deleted_keeps_no_other_and_is_retried",
    "configuration.reloads": ("kubelet/reload/test_config_reloader.py::test_reload_that_raises_is_followed_by_others"),
    "configuration.components": "kubelet/reload/test_config_reloader.py"
    "::test_component_that_fails_to_take_its_value_keeps_no_other_from_it",
    "configuration.watch": "kubelet/reload/test_config_reloader.py::test_watch_that_raises_is_begun_again",
    "network.configuration": (
        "criserver/cni/test_damage.py::test_configuration_is_looked_at_periodically_without_inotify"
    ),
    "network.status": ("criserver/cni/test_network_status.py::test_status_that_raises_is_asked_again"),
    "network.firewall": "criserver/cni/test_network_manager.py::test_default_network_masquerades_its_pods[False]",
    "network.collection": ("criserver/cni/test_network_status.py::test_plugins_hear_which_attachments_are_in_use"),
    "csi.limits": (
        "kubelet/actuate/volumes/csi/test_limit_updates.py::test_driver_that_fails_does_not_delay_the_others"
    ),
    "firewall-chains": ("kubelet/actuate/host/test_firewall_chains.py::test_missing_program_does_not_delay_the_other"),
    "watchdog": "base/daemon/test_watchdog.py::test_check_that_raises_is_followed_by_others",
    "node-shutdown.logind": "kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_lost_connection_is_opened_again_and_the_lock_is_kept_meanwhile",
    "node-shutdown.pods": "kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_pod_that_raises_keeps_no_other_and_no_lock",
    "node-shutdown.rounds": "kubelet/observe/node_shutdown/test_shutdown_manager.py"
    "::test_round_that_raises_releases_the_lock",
    "supervisor.server": "criserver/embedded/test_supervisor.py::test_start_that_raises_is_retried",
    "probes": "kubelet/observe/probes/test_probe_manager.py::test_a_defect_in_one_probe_stops_no_other",
    "workers.pods": "kubelet/control/workers/test_worker_set.py"
    "::test_unexpected_exception_in_a_step_is_retried_and_affects_no_other_pod",
    "workers.ends": "kubelet/control/workers/test_worker_set.py"
    "::test_exception_after_the_end_of_a_worker_affects_no_other_pod",
    "server.parts": "criserver/test_server_parts.py::test_part_that_raises_is_run_again_and_keeps_no_other",
    "server.metrics": "criserver/test_server_parts.py::test_part_that_raises_is_run_again_and_keeps_no_other",
    "containers.exits": ("criserver/container/test_calls.py::test_watch_of_a_container_that_raises_is_begun_again"),
    "sandboxes.infra": ("criserver/sandbox/test_parts.py::test_watch_of_an_infra_process_that_raises_is_begun_again"),
    "store.owed": "criserver/record_store/test_deferred.py::test_store_idle_after_disk_full_writes_deferred_changes",
}
"""By the guard's name: the file, from ``tests/unit/``, and the test in it, as pytest writes it, with its parameters if
only the run with these lets an item of that loop raise."""


def loops_of(file: str, test: str) -> list[str]:
    """The loops for which a test is named. ``file``: from ``tests/unit/``; ``test``: its name, with parameters."""
    names = {f"{file}::{test}", f"{file}::{test.partition('[')[0]}"}
    return [loop for loop, place in INJECTIONS.items() if place in names]
