"""The work queue: order, coalescing, back-off, stated times."""

from __future__ import annotations

import asyncio

import pytest

from gateway.queue import Backoff, Key, Lane, QueueClosed, WorkQueue
from tests.gateway.core.clocks import VirtualClock, settle

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def queue(draw: float = 0.0) -> tuple[WorkQueue, VirtualClock]:
    clock = VirtualClock()
    return WorkQueue(clock, Backoff(base=1.0, cap=60.0, jitter=0.5), lambda: draw), clock


async def get(work: WorkQueue) -> Key:
    return (await asyncio.wait_for(work.get(), 1)).key


async def test_wakes_of_one_key_are_one_pass_in_order_of_the_first() -> None:
    work, _ = queue()
    for key in (A, B, A, A, B):
        work.add(key)
    assert [await get(work), await get(work)] == [A, B]
    assert work.depth(Lane.CHANGE) == 0


async def test_a_wake_during_a_pass_is_one_further_pass_and_never_beside_it() -> None:
    work, _ = queue()
    work.add(A)
    item = await work.get()
    work.add(A)
    work.add(A, Lane.RESYNC)
    assert work.depth(Lane.CHANGE) == 0
    work.done(item)
    second = await work.get()
    assert (second.key, second.lane) == (A, Lane.CHANGE)
    work.done(second)
    assert work.depth(Lane.CHANGE) == work.depth(Lane.RESYNC) == 0


async def test_changes_go_before_the_initial_list() -> None:
    work, _ = queue()
    work.add_all([A, B], Lane.RESYNC)
    work.add(C)
    work.add(B)  # moves to the better lane
    assert [await get(work) for _ in range(3)] == [C, B, A]


async def test_a_resync_does_not_push_a_change_back() -> None:
    work, _ = queue()
    work.add(A)
    work.add(B)
    work.add(A, Lane.RESYNC)
    assert (await get(work), await get(work)) == (A, B)


async def test_backoff_doubles_per_key_up_to_the_cap_and_ends_with_success() -> None:
    work, clock = queue()
    work.add(A)
    delays = []
    for _ in range(8):
        item = await asyncio.wait_for(work.get(), 1)
        delays.append(work.retry(item))
        clock.advance(delays[-1] - 0.001)
        assert work.depth(Lane.CHANGE) == 0
        clock.advance(0.001)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    work.done(await work.get())
    work.add(A)
    assert work.retry(await work.get()) == 1


async def test_jitter_shortens_a_backoff_by_up_to_its_share() -> None:
    backoff = Backoff(base=1.0, cap=60.0, jitter=0.5)
    assert [backoff.delay(3, draw) for draw in (0.0, 0.5, 1.0)] == [4.0, 3.0, 2.0]


async def test_a_backoff_of_one_key_delays_no_other() -> None:
    work, clock = queue()
    work.add(A)
    work.retry(await work.get())
    work.add(B)
    assert await get(work) == B
    clock.advance(1)
    assert await get(work) == A


async def test_a_change_ends_a_backoff_early_and_keeps_the_count_but_a_resync_waits() -> None:
    work, clock = queue()
    work.add(A)
    work.retry(await work.get())
    work.add(A, Lane.RESYNC)
    assert work.depth(Lane.RESYNC) == work.depth(Lane.CHANGE) == 0
    work.add(A)
    item = await work.get()
    assert item.failures == 1
    assert work.retry(item) == 2
    clock.advance(1.5)  # the first back-off's end, overtaken, wakes nobody
    assert work.depth(Lane.CHANGE) == 0
    clock.advance(0.5)
    assert await get(work) == A


async def test_a_retry_keeps_its_lane() -> None:
    work, clock = queue()
    work.add(A, Lane.RESYNC)
    work.retry(await work.get())
    clock.advance(1)
    work.add(B)
    assert [await get(work), await get(work)] == [B, A]


async def test_a_stated_time_is_kept_and_counts_as_a_change() -> None:
    work, clock = queue()
    work.add(A, Lane.RESYNC)
    work.done(await work.get(), again_in=30)
    clock.advance(29.9)
    assert work.depth(Lane.CHANGE) == 0
    clock.advance(0.1)
    item = await work.get()
    assert (item.key, item.lane, item.failures) == (A, Lane.CHANGE, 0)


async def test_a_pass_in_between_replaces_the_stated_time() -> None:
    work, clock = queue()
    work.add(A)
    work.done(await work.get(), again_in=30)
    clock.advance(10)
    work.add(A)
    work.done(await work.get(), again_in=30)
    clock.advance(25)
    assert work.depth(Lane.CHANGE) == 0
    clock.advance(5)
    assert work.depth(Lane.CHANGE) == 1


async def test_retry_waits_at_least_as_long_as_the_service_asks() -> None:
    work, _ = queue()
    work.add(A)
    assert work.retry(await work.get(), at_least=7.0) == 7.0


async def test_a_back_off_does_not_outlast_a_stated_time() -> None:
    work, clock = queue()
    work.add(A)
    for expected in (1, 2, 2.5, 2.5):
        item = await work.get()
        assert work.retry(item, at_most=2.5) == expected
        clock.advance(expected)
    assert (await work.get()).failures == 4


async def test_postponed_keeps_the_failures() -> None:
    work, clock = queue()
    work.add(A)
    work.retry(await work.get())
    clock.advance(1)
    work.postpone(await work.get(), 0.1)
    clock.advance(0.1)
    assert (await work.get()).failures == 1


async def test_hurry_ends_back_offs_but_no_stated_times() -> None:
    work, clock = queue()
    for key, lane in ((A, Lane.CHANGE), (B, Lane.RESYNC), (C, Lane.CHANGE)):
        work.add(key, lane)
    items = {item.key: item for item in [await work.get() for _ in range(3)]}
    work.retry(items[A])
    work.retry(items[B])
    work.done(items[C], again_in=30)
    work.hurry()
    assert (work.depth(Lane.CHANGE), work.depth(Lane.RESYNC)) == (1, 1)
    assert [(await work.get()).failures for _ in range(2)] == [1, 1]
    clock.advance(1)  # the ends of the back-offs wake nobody twice
    assert work.depth(Lane.CHANGE) == 0


async def test_a_forgotten_key_never_returns() -> None:
    work, clock = queue()
    work.add(A)
    work.retry(await work.get())
    work.add(B)
    work.forget(A)
    work.forget(B)
    clock.advance(100)
    assert work.depth(Lane.CHANGE) == work.depth(Lane.RESYNC) == 0
    assert clock.pending == 0


async def test_forgotten_during_its_pass_then_made_again() -> None:
    work, _ = queue()
    work.add(A)
    item = await work.get()
    work.forget(A)
    work.add(A)
    work.done(item)
    assert await get(work) == A


async def test_wait_is_measured_from_the_first_wake() -> None:
    work, clock = queue()
    work.add(A)
    clock.advance(3)
    work.add(A)
    item = await work.get()
    assert clock.monotonic() - item.waited_from == 3


async def test_workers_share_what_comes_and_a_cancelled_one_loses_nothing() -> None:
    work, _ = queue()
    waiting = [asyncio.ensure_future(work.get()) for _ in range(3)]
    await settle()
    work.add(A)
    waiting[0].cancel()  # in the very moment in which it was woken
    waiting[1].cancel()
    assert (await asyncio.wait_for(waiting[2], 1)).key == A
    more = [asyncio.ensure_future(work.get()) for _ in range(2)]
    await settle()
    work.add(B)
    work.add(C)
    assert {item.key for item in await asyncio.wait_for(asyncio.gather(*more), 1)} == {B, C}


async def test_close_sends_everyone_home() -> None:
    work, _ = queue()
    waiting = asyncio.ensure_future(work.get())
    await settle()
    work.close()
    with pytest.raises(QueueClosed):
        await asyncio.wait_for(waiting, 1)
    work.add(A)
    with pytest.raises(QueueClosed):
        await work.get()


async def test_overtaken_times_do_not_pile_up() -> None:
    work, _ = queue()
    for _ in range(10_000):
        work.add(A)
        work.done(await work.get(), again_in=3600)
    assert len(work._due) < 200
