"""The queue: by hand where it can be counted, and as laws for any list of calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.scenario.op_list import NONE, Call
from estimator.schedule.queue import DEFAULT_STREAM, Times, moments, order_of, queued


def call(kind="kernel", stream=0, waits_for=NONE):
    return Call(
        kind=kind, signature=0 if kind in ("kernel", "collective") else NONE, stream=stream, waits_for=waits_for
    )


def passed(calls, device, host, **more):
    """Queue calls whose columns are given in seconds."""
    return queued(*laid(calls, device, host, **more))


def laid(calls, device, host, *, gap=0.0, products=0.0, contention=0.0, last=0.0, phases=None):
    count = len(calls)
    working = np.array([one.kind == "kernel" for one in calls], dtype=float)

    def column(values):
        return np.broadcast_to(np.asarray(values, dtype=float), (count,)).reshape(1, count)

    return (
        order_of(calls, phases or ["forward"] * count),
        Times(
            device=column(device) * np.array([one.kind in ("kernel", "collective") for one in calls]),
            gap=column(gap) * working,
            host=column(host),
            products_frac=np.broadcast_to(np.asarray(products, dtype=float), (count,)),
            contention_frac=np.array([contention]),
            last_s=np.array([last]),
        ),
    )


def test_the_slower_of_device_and_host_sets_the_pace():
    kernels = [call() for _ in range(10)]
    assert passed(kernels, 2.0, 1.0).seconds == pytest.approx(1.0 + 10 * 2.0), "the first launch, then the device"
    assert passed(kernels, 1.0, 2.0).seconds == pytest.approx(10 * 2.0 + 1.0), "every launch, then the last kernel"
    assert passed(kernels, 2.0, 1.0, gap=0.5, last=3.0).seconds == pytest.approx(1.0 + 10 * 2.5 + 3.0)


def test_a_step_that_follows_on_has_the_lead_of_those_before():
    """The slower of both, and no first launch; a host that waits for the device at the step's end has none."""

    def follows(calls, device, host, **more):
        return queued(*laid(calls, device, host, **more), follows_on=True)

    kernels = [call() for _ in range(10)]
    assert follows(kernels, 2.0, 1.0).seconds == pytest.approx(10 * 2.0)
    assert follows(kernels, 1.0, 2.0).seconds == pytest.approx(10 * 2.0)
    assert follows(kernels, 1.0, 2.0, last=3.0).seconds == pytest.approx(10 * 2.0 + 3.0)
    uneven = follows([call(), call()], [1.0, 9.0], [6.0, 1.0])
    assert uneven.seconds == pytest.approx(10.0), "the host goes through the first while the device is at the second"
    assert passed([call(), call()], [1.0, 9.0], [6.0, 1.0]).seconds == pytest.approx(16.0)
    read = [*kernels, call("sync")]
    assert follows(read, 2.0, [1.0] * 10 + [0.0]).seconds == passed(read, 2.0, [1.0] * 10 + [0.0]).seconds


def test_a_host_that_ran_ahead_uses_up_its_lead():
    calls = [call(), call(), call()]
    found = passed(calls, [10.0, 1.0, 1.0], [1.0, 5.0, 7.0])
    assert found.seconds == pytest.approx(14.0), "the third launch comes at 13"
    assert found.waits_s[0] == pytest.approx(1.0 + 1.0)


def test_a_sync_stops_the_host_until_the_device_is_done():
    calls = [call(), call("sync"), call()]
    assert passed(calls, [10.0, 0.0, 1.0], [1.0, 0.0, 2.0]).seconds == pytest.approx(11.0 + 2.0 + 1.0)
    calls = [call(), call(stream=1), call("sync", waits_for=1), call()]
    assert passed(calls, [10.0, 3.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]).seconds == pytest.approx(12.0)


def test_a_stream_waits_for_a_collective_that_others_hide():
    calls = [call(), call("wait", 1, 0), call("collective", 1), call(), call("wait", 0, 2), call()]
    found = passed(calls, [2.0, 0.0, 6.0, 4.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert found.seconds == pytest.approx(1 + 2 + 6 + 1)
    assert found.exposed_s == {2: pytest.approx(2.0)}
    assert found.streams_s[1] == pytest.approx(6.0)


def test_products_beside_a_collective_lose_what_they_contend_for():
    calls = [call(), call("wait", 1, 0), call("collective", 1), call(), call("wait", 0, 2), call()]
    device, products = [2.0, 0.0, 3.0, 10.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    found = passed(calls, device, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], products=products, contention=0.9)
    assert found.seconds == pytest.approx(1 + 2 + 10 + 0.9 * 3 + 1)
    assert found.exposed_s == {2: pytest.approx(0.9 * 3)}


def test_a_collective_launched_later_still_slows_what_runs_beside_it():
    calls = [call(), call("collective", 1)]
    found = passed(calls, [10.0, 4.0], [1.0, 1.0], products=[1.0, 0.0], contention=0.5)
    assert found.seconds == pytest.approx(11.0 + 0.5 * 4.0)


def test_a_collective_on_the_default_stream_shows_whole():
    found = passed([call(), call("collective"), call()], [1.0, 5.0, 1.0], [1.0, 0.0, 0.0])
    assert found.seconds == pytest.approx(8.0)
    assert found.exposed_s == {1: pytest.approx(5.0)}
    assert found.busy_s == pytest.approx(2.0)


def test_waiting_for_kernels_of_another_stream_is_no_communication():
    found = passed([call(stream=1), call("wait", 0, 0), call()], [5.0, 0.0, 1.0], [1.0, 0.0, 0.0])
    assert found.beside_s == {0: pytest.approx(5.0)}
    assert not found.exposed_s


def test_an_empty_list_takes_no_time():
    assert passed([], [], []).seconds == 0.0


@st.composite
def lists(draw):
    calls = []
    for index in range(draw(st.integers(1, 30))):
        kind = draw(st.sampled_from(("kernel", "kernel", "kernel", "collective", "wait", "sync")))
        waits_for = draw(st.integers(NONE, index - 1)) if kind in ("wait", "sync") else NONE
        calls.append(call(kind, draw(st.integers(0, 2)), waits_for))
    times = st.floats(0.0, 4.0)
    count = len(calls)
    return (
        calls,
        draw(st.lists(times, min_size=count, max_size=count)),
        draw(st.lists(times, min_size=count, max_size=count)),
        draw(st.lists(st.sampled_from((0.0, 0.5, 1.0)), min_size=count, max_size=count)),
        draw(st.floats(0.0, 1.0)),
    )


def one_by_one(calls, device, host):
    """The same without contention, call after call: what the runs must equal."""
    now, ends, free, ready = 0.0, [], {}, {}
    for one, length, launch in zip(calls, device, host, strict=True):
        now += launch
        target = one.waits_for
        if one.kind == "sync":
            now = max(now, ends[target] if target != NONE else max(free.values(), default=0.0))
            ends.append(now)
        elif one.kind == "wait":
            if target != NONE:
                ready[one.stream] = max(ready.get(one.stream, 0.0), ends[target])
            ends.append(max(free.get(one.stream, 0.0), ready.get(one.stream, 0.0)))
        else:
            start = max(now, free.get(one.stream, 0.0), ready.pop(one.stream, 0.0))
            free[one.stream] = start + length
            ends.append(start + length)
    return max([now, *free.values()]), ends


@settings(max_examples=100)
@given(lists())
def test_runs_give_what_calls_one_by_one_do(given_):
    calls, device, host, products, _ = given_
    step_s, ends_s = one_by_one(calls, device, host)
    order, times = laid(calls, device, host, products=products)
    assert queued(order, times).seconds[0] == pytest.approx(step_s)
    when = moments(order, times)
    assert when.ends_s == pytest.approx(ends_s)
    assert when.ends_s - when.begins_s == pytest.approx(times.device[0])
    assert when.launched_s - when.called_s == pytest.approx(host)


@settings(max_examples=100)
@given(lists())
def test_parts_add_to_the_step_and_none_is_negative(given_):
    calls, device, host, products, contention = given_
    columns = laid(calls, device, host, products=products, contention=contention, last=0.25)
    for found in (queued(*columns), queued(*columns, follows_on=True)):
        parts = [*found.waits_s.values(), *found.exposed_s.values(), *found.beside_s.values()]
        assert found.busy_s[0] + sum(part[0] for part in parts) == pytest.approx(found.seconds[0])
        assert all(part[0] >= -1e-9 for part in parts)
    assert queued(*columns, follows_on=True).seconds[0] <= queued(*columns).seconds[0] + 1e-9


@settings(max_examples=100)
@given(lists())
def test_a_step_takes_as_long_as_the_host_and_any_stream(given_):
    calls, device, host, products, contention = given_
    found = passed(calls, device, host, products=products, contention=contention)
    assert found.seconds[0] >= sum(host) - 1e-9
    for stream in {one.stream for one in calls}:
        own = sum(
            length
            for one, length in zip(calls, device, strict=True)
            if one.stream == stream and one.kind in ("kernel", "collective")
        )
        assert found.seconds[0] >= own - 1e-9
    assert DEFAULT_STREAM == 0


@settings(max_examples=200)
@given(lists(), st.floats(0.0, 1.0))
def test_a_faster_device_is_never_slower(given_, share):
    calls, device, host, _, _ = given_
    faster = [length * share for length in device]
    assert passed(calls, faster, host).seconds[0] <= passed(calls, device, host).seconds[0] + 1e-9


@settings(max_examples=100)
@given(lists())
def test_variants_are_each_what_they_are_alone(given_):
    calls, device, host, products, contention = given_
    order, count = order_of(calls, ["forward"] * len(calls)), len(calls)
    working = np.array([one.kind in ("kernel", "collective") for one in calls], dtype=float)

    def times(scales):
        rows = len(scales)
        return Times(
            device=np.outer(scales, device) * working,
            gap=np.zeros((rows, count)),
            host=np.outer(np.ones(rows), host),
            products_frac=np.array(products),
            contention_frac=np.full(rows, contention),
            last_s=np.zeros(rows),
        )

    together = queued(order, times([1.0, 0.5, 2.0])).seconds
    # The share of products in a run is the first variant's; it is the same where all kernels move alike.
    alone = [queued(order, times([scale])).seconds[0] for scale in (1.0, 0.5, 2.0)]
    assert together == pytest.approx(np.array(alone))
