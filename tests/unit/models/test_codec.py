"""Decoding, encoding, and what null, unknown fields and times become."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.models import codec
from pykubelet.models import coordination_v1 as coordination
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import MicroTime, micro_time_from_unix, time_from_unix
from pykubelet.testing.agent import environment


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    pod = codec.decode(b'{"spec":{"futureField":{"a":[1]},"containers":[{"name":"a","new":1}]}}', core.Pod)
    assert pod.spec.containers == (core.Container(name="a"),)


_FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
from pykubelet.models import codec, core_v1
start = threading.Barrier(2)
def convert():
    start.wait()
    codec.from_builtins({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}, core_v1.Pod)
threads = [threading.Thread(target=convert) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("whole")
"""


def test_threads_may_need_a_type_for_the_first_time_at_once() -> None:
    """msgspec alone crashes the process then, nearly always."""
    done = subprocess.run([sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-2000:]


def test_absent_parts_of_whole_objects_are_empty_ones() -> None:
    pod = codec.decode(b"{}", core.Pod)
    assert pod.metadata == ObjectMeta()
    assert pod.spec.containers == ()
    assert pod.status.phase == ""


def test_null_is_absent_wherever_it_stands() -> None:
    text = b"""{"metadata":{"name":"a","creationTimestamp":null,"labels":null},
    "spec":{"containers":[{"name":"x","ports":null,"env":[{"name":"A","value":null}],"resources":null}],
    "volumes":null,"hostname":null}}"""
    pod = codec.decode(text, core.Pod)
    assert pod == core.Pod(
        metadata=ObjectMeta(name="a"),
        spec=core.PodSpec(containers=(core.Container(name="x", env=(core.EnvVar(name="A"),)),)),
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"spec":[]}',
        b'{"spec":{"containers":{}}}',
        b'{"metadata":{"creationTimestamp":"yesterday"}}',
        b'{"spec":{"terminationGracePeriodSeconds":"30"}}',
        b'{"spec":{"containers":[{"ports":[{}]}]}}',
        b'{"a":' * 100_000,
    ],
)
def test_text_that_is_no_valid_pod_is_invalid(text: bytes) -> None:
    with pytest.raises(Invalid, match="not a valid Pod"):
        codec.decode(text, core.Pod)


def test_zero_values_are_left_out_and_required_numbers_are_not() -> None:
    assert codec.encode(core.Pod(spec=core.PodSpec(hostname=""))) == b'{"spec":{}}'
    status = core.ContainerStatus(name="a", ready=False, restart_count=0)
    assert codec.to_builtins(status) == {"name": "a", "ready": False, "restartCount": 0}


def test_an_empty_string_that_means_something_survives() -> None:
    claim = codec.decode(b'{"spec":{"storageClassName":""}}', core.PersistentVolumeClaim)
    assert claim.spec.storage_class_name == ""
    assert codec.encode(claim) == b'{"spec":{"storageClassName":""}}'


def test_bytes_are_base64() -> None:
    secret = core.Secret(data={"k": b"\x00\xff"})
    assert codec.encode(secret) == b'{"data":{"k":"AP8="}}'
    assert codec.decode(codec.encode(secret), core.Secret) == secret


def test_times_are_written_to_the_second_and_micro_times_with_six_digits() -> None:
    meta = ObjectMeta(creation_timestamp=time_from_unix(1_700_000_000.999))
    assert codec.encode(meta) == b'{"creationTimestamp":"2023-11-14T22:13:20Z"}'
    lease = coordination.LeaseSpec(renew_time=micro_time_from_unix(1_700_000_000))
    assert codec.encode(lease) == b'{"renewTime":"2023-11-14T22:13:20.000000Z"}'
    assert codec.to_builtins(lease) == {"renewTime": "2023-11-14T22:13:20.000000Z"}


@given(st.datetimes(timezones=st.timezones()))
def test_micro_times_survive_the_wire(moment: datetime) -> None:
    try:
        wanted = moment.astimezone(UTC)
    except OverflowError:
        return
    micro = MicroTime.combine(moment.date(), moment.timetz()).replace(fold=moment.fold)
    spec = coordination.LeaseSpec(renew_time=micro)
    again = codec.decode(codec.encode(spec), coordination.LeaseSpec).renew_time
    assert type(again) is MicroTime
    assert again == wanted


@pytest.mark.parametrize("text", ['"2020-01-01T00:00:00"', '"today"', "5"])
def test_times_without_a_zone_or_form_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        codec.decode(f'{{"renewTime":{text}}}', coordination.LeaseSpec)
    with pytest.raises(Invalid):
        codec.decode(f'{{"creationTimestamp":{text}}}', ObjectMeta)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_micro_times_outside_the_years_of_utc_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="years"):
        codec.decode(f'{{"renewTime":"{text}"}}', coordination.LeaseSpec)


def test_equal_objects_have_one_stable_text() -> None:
    one = ObjectMeta(labels={"a": "1", "b": "2"})
    other = ObjectMeta(labels={"b": "2", "a": "1"})
    assert codec.encode_stable(one) == codec.encode_stable(other)
