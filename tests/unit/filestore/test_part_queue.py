"""The queue between the thread that makes parts and the thread that uploads them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from daybreak.filestore.part_queue import Interrupted, PartQueue


def test_parts_arrive_in_order_and_are_bounded() -> None:
    queue, made = PartQueue(2), []

    def parts() -> Iterator[bytes]:
        for number in range(50):
            made.append(number)
            yield b"%d" % number

    with ThreadPoolExecutor(1) as executor:
        filling = executor.submit(queue.fill, parts())
        received = []
        for part in queue.parts():
            received.append(part)
            assert len(made) <= len(received) + 3  # two in the queue, one in the hand of the maker
        filling.result()
    assert received == [b"%d" % number for number in range(50)]


def test_error_of_the_maker_interrupts_the_reader() -> None:
    queue = PartQueue(3)

    def parts() -> Iterator[bytes]:
        yield b"one"
        raise ValueError("no more")

    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(list, queue.parts())
        with pytest.raises(ValueError, match="no more"):
            queue.fill(parts())
        with pytest.raises(Interrupted):
            reading.result()


def test_maker_does_not_wait_for_a_reader_that_ended() -> None:
    queue = PartQueue(1)
    with queue.reader():
        pass
    filler = threading.Thread(target=queue.fill, args=([b"x"] * 10,))
    filler.start()
    filler.join(60)
    assert not filler.is_alive()
