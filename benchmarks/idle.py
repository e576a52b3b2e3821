"""Idle use: CPU (percent of one core) and memory of the agent's processes while its pods do nothing.

``idle.N.cpu``, ``idle.N.rss`` and ``idle.N.pss`` with N pods, for the last count also with an agent that was restarted
on a runtime without events. The runtime's own use (its daemon, without shims) is ``idle.N.runtime_cpu``.
"""

import asyncio

from benchmarks.manifests import plain
from benchmarks.session import Session
from benchmarks.usage import usage


async def idle_with_few(session: Session, count: int) -> None:
    """Start `count` pods on an agent that has none, measure for the short time, and remove them."""
    names = [f"idle-{number:03}" for number in range(count)]
    if names:
        session.write_all(names, plain)
        await session.observer.running(names)
    await measure(session, count, session.plan.short_seconds)
    if names:
        await session.clear()


async def measure(session: Session, count: int, seconds: float) -> None:
    """Measure the current pods, after a time to settle."""
    session.say(f"{session.subject.label}: idle with {count} pods, {session.plan.settle_seconds + seconds:.0f} s")
    await asyncio.sleep(session.plan.settle_seconds)
    clock = asyncio.get_running_loop().time
    runtime = session.runtime_pid
    begin, before, runtime_before = clock(), usage(session.subject.pid), usage(runtime)
    await asyncio.sleep(seconds)
    after, runtime_after, took = usage(session.subject.pid), usage(runtime), clock() - begin
    session.note(f"idle.{count}.cpu", "%", [100 * (after.cpu_seconds - before.cpu_seconds) / took])
    session.note(
        f"idle.{count}.runtime_cpu", "%", [100 * (runtime_after.cpu_seconds - runtime_before.cpu_seconds) / took]
    )
    session.note(f"idle.{count}.rss", "MiB", [after.rss_mib])
    session.note(f"idle.{count}.pss", "MiB", [after.pss_mib])
