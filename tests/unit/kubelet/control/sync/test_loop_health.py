"""The longest time that the sync loop may do nothing."""

from pykubelet.kubelet.control.sync.plan.loop_health import stuck_after


def test_loop_is_stuck_after_five_minutes_or_two_periods_of_the_configuration() -> None:
    assert stuck_after(60.0) == 300.0
    assert stuck_after(150.0) == 300.0
    assert stuck_after(200.0) == 400.0
