"""Pull policies, reasons and messages."""

import pytest

from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.kubelet.actuate.images.plan import pull_policy


@pytest.mark.parametrize(
    ("policy", "present", "step"),
    [
        ("Always", False, pull_policy.PullStep.PULL),
        ("Always", True, pull_policy.PullStep.PULL),
        ("IfNotPresent", False, pull_policy.PullStep.PULL),
        ("IfNotPresent", True, pull_policy.PullStep.USE),
        ("Never", False, pull_policy.PullStep.REFUSE),
        ("Never", True, pull_policy.PullStep.USE),
    ],
)
def test_next_step_follows_pull_policy_and_presence(policy: str, present: bool, step: pull_policy.PullStep) -> None:
    assert pull_policy.step(policy, present) is step


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("no such host", ImageReason.ERR_IMAGE_PULL, "no such host"),
        (
            "RegistryUnavailable: pull failed: 503",
            ImageReason.REGISTRY_UNAVAILABLE,
            "image pull failed for app because the registry is unavailable: pull failed: 503",
        ),
        (
            "SignatureValidationFailed",
            ImageReason.SIGNATURE_VALIDATION_FAILED,
            "image pull failed for app because the signature validation failed",
        ),
    ],
)
def test_pull_failure_has_the_reason_of_its_cause(text: str, reason: ImageReason, message: str) -> None:
    assert pull_policy.pull_failure("app", text) == (reason, message)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-1, "0s"),
        (0.0004, "0s"),
        (0.85, "850ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.999, "59.999s"),
        (60, "1m0s"),
        (120.25, "2m0.25s"),
        (3603, "1h0m3s"),
    ],
)
def test_durations_are_written_as_in_go(seconds: float, text: str) -> None:
    assert pull_policy.duration(seconds) == text


def test_back_off_message_keeps_the_error_that_led_there() -> None:
    assert (
        pull_policy.back_off_message("app", "ErrImagePull: gone") == 'Back-off pulling image "app": ErrImagePull: gone'
    )
    assert pull_policy.back_off_message("app", "") == 'Back-off pulling image "app"'
