"""Directories of tests that are run by a tool."""

import os

from tools.scratch import scratch


def test_directory_goes_with_a_tree_that_is_deeper_than_the_stack() -> None:
    with scratch("pktest-scratch-") as directory:
        here = os.open(directory, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("deep", dir_fd=here)
            below = os.open("deep", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    assert not directory.exists()
