"""Processes that hash: what they answer, who goes first, and what becomes of a question when one of them ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import socket
import struct
import termios
from pathlib import Path

import pytest

from daybreak.access.hashing import PasswordHashing
from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable
from tests.parts.hashing import child_of, hashing_processes
from tests.parts.waiting import wait_until

HASH = passwords.hash_password("lantern 41 harbour")
PATIENCE_SECONDS = 90


def hashing(asking: socket.socket) -> PasswordHashing:
    return PasswordHashing(asking, wait_seconds=PATIENCE_SECONDS)


def stopped_child(process: int) -> int:
    """The child of a hashing process, from now on as one that gets no time of any processor."""
    child = wait_until(lambda: child_of(process), what="a child")
    os.kill(child, signal.SIGSTOP)
    return child


def test_passwords_of_every_kind(hashing_channel: socket.socket) -> None:
    async def story() -> None:
        asked = hashing(hashing_channel)
        assert await asked.verify(HASH, "lantern 41 harbour")
        for wrong in ("lantern 41 harbou", "", "\ud800", "\0", "x" * 16_000):
            assert not await asked.verify(HASH, wrong)
        for strange in ("", "no hash", "$argon2id$", "\0"):
            assert not await asked.verify(strange, "lantern 41 harbour")
        assert not await asked.verify(None, "lantern 41 harbour")
        for password in ("caf\u00e9 \U0001f3ad", "\udcff", ""):
            made = await asked.hash(password)
            assert made != await asked.hash(password), "a salt of its own"
            assert passwords.verify(made, password)
            assert await asked.verify(made, password)
        assert await asked.verify(await asked.hash("caf\u00e9"), "cafe\u0301")

    asyncio.run(story())


def test_each_hashes_one_at_a_time_for_all_who_ask() -> None:
    """As long as none goes on, nothing is hashed; one alone answers all."""
    with hashing_processes() as (asking, processes):

        async def story() -> None:
            workers = [hashing(asking), hashing(asking)]
            assert await workers[0].verify(HASH, "lantern 41 harbour")
            for process in processes:
                os.killpg(process.pid, signal.SIGSTOP)
            asked = [asyncio.create_task(workers[at % 2].verify(HASH, "wrong")) for at in range(10)]
            done, _ = await asyncio.wait(asked, timeout=0.5)
            assert not done
            os.killpg(processes[0].pid, signal.SIGCONT)
            assert await asyncio.gather(*asked) == [False] * 10

        asyncio.run(story())


@pytest.mark.parametrize("more", [0, 7, 19])
def test_whatever_else_the_service_does_goes_first(more: int) -> None:
    """However late the service itself comes: who started it may have made it nicer."""
    with hashing_processes(1, preexec_fn=lambda: os.nice(more)) as (asking, (process,)):
        assert asyncio.run(hashing(asking).verify(HASH, "lantern 41 harbour"))
        child = wait_until(lambda: child_of(process.pid), what="a child")
        wait_until(lambda: os.sched_getscheduler(child) == os.SCHED_IDLE, what="the child to be in the idle class")
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + more + 5, 19)


def test_without_time_to_spare_the_process_hashes_itself() -> None:
    with hashing_processes(1) as (asking, (process,)):

        async def story() -> None:
            asked = hashing(asking)
            assert await asked.verify(HASH, "lantern 41 harbour")
            child = stopped_child(process.pid)
            before = cpu_ticks(child)
            assert await asked.verify(HASH, "lantern 41 harbour")
            assert not await asked.verify(HASH, "wrong")
            assert cpu_ticks(child) == before
            os.kill(child, signal.SIGCONT)

            async def by_the_child() -> bool:
                own = cpu_ticks(process.pid)
                assert await asked.verify(HASH, "lantern 41 harbour")
                assert not await asked.verify(HASH, "wrong")
                return cpu_ticks(process.pid) == own

            # Once it is not behind any more, after a while, and unless this machine has no time either.
            for _ in range(300):
                if await by_the_child():
                    break
                await asyncio.sleep(0.1)
            else:
                pytest.fail("the child is not asked again")
            assert child_of(process.pid) == child

        asyncio.run(story())


def test_a_child_that_ends_is_replaced_and_its_question_answered() -> None:
    with hashing_processes(1) as (asking, (process,)):

        async def story() -> None:
            asked = hashing(asking)
            assert await asked.verify(HASH, "lantern 41 harbour")
            child = stopped_child(process.pid)
            under_way = asyncio.create_task(asked.verify(HASH, "lantern 41 harbour"))
            await taken(asking)
            os.kill(child, signal.SIGKILL)
            assert await under_way
            assert not await asked.verify(HASH, "wrong")
            await asyncio.to_thread(wait_until, lambda: child_of(process.pid) not in (0, child), what="another child")
            assert await asked.verify(HASH, "lantern 41 harbour")

        asyncio.run(story())
        assert process.alive()


def test_a_process_that_dies_leaves_its_question_to_the_other() -> None:
    with hashing_processes() as (asking, processes):

        async def story() -> None:
            asked = hashing(asking)
            assert await asyncio.gather(*(asked.verify(HASH, "lantern 41 harbour") for _ in range(8))) == [True] * 8
            for process in processes:
                # Whoever has a question waits for the child a while: time to die in.
                stopped_child(process.pid)
            both = [asyncio.create_task(asked.verify(HASH, "lantern 41 harbour")) for _ in processes]
            await taken(asking)
            processes[0].process.kill()
            assert await asyncio.gather(*both) == [True, True]
            assert not await asked.verify(HASH, "wrong")

        asyncio.run(story())


def test_a_process_that_is_stopped_with_a_question_keeps_nobody_for_ever() -> None:
    with hashing_processes(1) as (asking, (process,)):

        async def story() -> None:
            patient = hashing(asking)
            assert await patient.verify(HASH, "lantern 41 harbour")
            child = stopped_child(process.pid)
            for _ in range(50):
                under_way = asyncio.create_task(PasswordHashing(asking, wait_seconds=0.5).verify(HASH, "wrong"))
                await taken(asking)
                os.kill(process.pid, signal.SIGSTOP)
                try:
                    assert not await under_way
                except Unavailable:
                    break
                # It was quicker than the signal.
                os.kill(process.pid, signal.SIGCONT)
            else:
                pytest.fail("no question was taken and kept")
            for each in (process.pid, child):
                os.kill(each, signal.SIGCONT)
            assert await patient.verify(HASH, "lantern 41 harbour")

        asyncio.run(story())


def test_questions_whose_asker_is_gone_are_not_hashed() -> None:
    with hashing_processes(1) as (asking, (process,)):

        async def story() -> None:
            asked = PasswordHashing(asking, places=101, wait_seconds=PATIENCE_SECONDS)
            assert await asked.verify(HASH, "lantern 41 harbour")
            os.killpg(process.pid, signal.SIGSTOP)
            before = cpu_ticks(process.pid, child_of(process.pid))
            gone = [asyncio.create_task(asked.verify(HASH, "wrong")) for _ in range(100)]
            await asyncio.sleep(0)
            for each in gone:
                each.cancel()
            await asyncio.wait(gone)
            os.killpg(process.pid, signal.SIGCONT)
            assert await asked.verify(HASH, "lantern 41 harbour")
            spent = cpu_ticks(process.pid, child_of(process.pid)) - before
            own = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            for _ in range(10):
                passwords.verify(HASH, "wrong")
            ten_hashes = (resource.getrusage(resource.RUSAGE_SELF).ru_utime - own) * os.sysconf("SC_CLK_TCK")
            # The one, by the child or by both; a hundred would be ten times this.
            assert spent < ten_hashes

        asyncio.run(story())


def test_all_end_when_nobody_can_ask_any_more() -> None:
    with hashing_processes() as (asking, processes):
        assert asyncio.run(hashing(asking).verify(HASH, "lantern 41 harbour"))
        children = [wait_until(lambda each=each: child_of(each.pid), what="a child") for each in processes]  # type: ignore[misc]
        # What ends the workers is not their end: logins under way are answered.
        for process in processes:
            process.process.send_signal(signal.SIGTERM)
        assert asyncio.run(hashing(asking).verify(HASH, "lantern 41 harbour"))
        asking.close()
        assert [process.process.wait(PATIENCE_SECONDS) for process in processes] == [0, 0]
        wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), what="the children's end")


def test_the_channel_has_no_name_and_no_program_that_is_started_gets_it(hashing_channel: socket.socket) -> None:
    assert hashing_channel.getsockname() == ""
    assert not hashing_channel.get_inheritable()


async def taken(asking: socket.socket) -> None:
    """Returns once no question waits to be taken."""

    def waiting() -> int:
        found: int = struct.unpack("i", fcntl.ioctl(asking, termios.TIOCOUTQ, bytes(4)))[0]
        return found

    await asyncio.sleep(0)
    assert await asyncio.to_thread(wait_until, lambda: not waiting(), what="the questions to be taken", every=0.001)


def cpu_ticks(*processes: int) -> int:
    """What they have used so far of a processor, user and system, in ticks of 10 ms."""
    total = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total
