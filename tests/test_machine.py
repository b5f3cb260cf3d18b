"""What is asked of the machine: work that is shared out over its cores."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

import pytest
import torch

from dcfsc.machine import one_a_core

CPU = torch.device("cpu")
_setting: ContextVar[int] = ContextVar("setting", default=0)


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items_and_each_has_one_thread(threads):
    def work(item):
        return item * item, torch.get_num_threads()

    assert one_a_core(work, range(20), CPU) == [(i * i, 1) for i in range(20)]
    assert torch.get_num_threads() == threads


def test_work_sees_the_context_of_its_caller(threads):
    token = _setting.set(7)
    try:
        assert one_a_core(lambda _: _setting.get(), range(4), CPU) == [7] * 4
    finally:
        _setting.reset(token)


def test_an_error_ends_the_work_and_gives_the_threads_back(threads):
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise KeyError("broken")
        time.sleep(0.02)  # a thousand of them last longer than any machine takes to see the error

    with pytest.raises(KeyError, match="broken"):
        one_a_core(work, range(1000), CPU)
    assert torch.get_num_threads() == threads
    assert len(begun) < 1000


def seen_by_a_new_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return seen[0]


def test_threads_that_start_meanwhile_or_later_have_their_number(threads):
    """Two calls overlap, and the one that began second ends last."""
    both, first_has_ended = threading.Event(), threading.Event()
    found = {}

    def first():
        found["meanwhile"] = one_a_core(
            lambda _: both.wait(30) and seen_by_a_new_thread(), [0], CPU
        )
        found["first"] = torch.get_num_threads()
        first_has_ended.set()

    def second():
        inner = one_a_core(
            lambda _: (both.set(), first_has_ended.wait(30), torch.get_num_threads()), [0, 1], CPU
        )
        found["work"] = {n for *_, n in inner}
        found["second"] = torch.get_num_threads()

    jobs = [threading.Thread(target=job) for job in (first, second)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert found.pop("work") == {1}
    assert found == {"meanwhile": [threads], "first": threads, "second": threads}
    assert seen_by_a_new_thread() == torch.get_num_threads() == threads


def test_another_device_takes_one_item_after_the_other():
    seen = one_a_core(lambda _: threading.get_ident(), range(3), torch.device("meta"))
    assert set(seen) == {threading.get_ident()}
