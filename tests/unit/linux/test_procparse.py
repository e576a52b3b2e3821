"""Parsing of files of /proc."""

from pykubelet.linux.procparse import NetDevice, parse_net_dev

# The layout of the kernel.
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1500      10    2    0    0     0          0         0      700       5    3    0    0     0       0          0
"""  # noqa: E501 - as the kernel prints it


def test_net_dev_has_the_counters_of_each_device() -> None:
    assert parse_net_dev(NET_DEV.encode()) == (
        NetDevice("lo", 100, 1, 0, 0, 100, 1, 0, 0),
        NetDevice("eth0", 1500, 10, 2, 0, 700, 5, 3, 0),
    )


def test_net_dev_without_blanks_and_with_odd_names_is_read() -> None:
    head = b"\n\n"
    (device,) = parse_net_dev(head + b"  \xff\x85:1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\nshort: 1 2\n")
    assert device == NetDevice("\ufffd\ufffd", 1, 2, 3, 4, 5, 6, 7, 8)


def test_net_dev_of_a_process_that_has_ended_is_empty() -> None:
    assert parse_net_dev(b"") == ()
