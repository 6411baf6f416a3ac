"""Callers that count verdicts: connections to several nodes that ask at a given rate, or as fast as they are answered, and note when
each verdict came and what it was. For over-admission and failures; speed is bench/load.c's to measure."""
import asyncio
import time

ADMITTED, REFUSED, FAILED = "admitted", "refused", "failed"
PATIENCE = 2.0  # seconds: who waits longer has no verdict


class Verdict:
    """What one call got, when (monotonic)."""

    __slots__ = ("sent", "received", "what", "node")

    def __init__(self, sent, received, what, node):
        self.sent, self.received, self.what, self.node = sent, received, what, node


async def read_resp(stream):
    """The first number of an answer, which is all that a verdict needs; an error is None."""
    line = await stream.readuntil(b"\r\n")
    if line[:1] == b"*":
        items = [await read_resp(stream) for _ in range(int(line[1:]))]
        return items[0]
    if line[:1] == b"$":
        await stream.readexactly(int(line[1:]) + 2)
        return None
    return int(line[1:]) if line[:1] == b":" else None


async def read_http(stream):
    """(status, body)"""
    head = await stream.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return int(head.split(b" ", 2)[1]), await stream.readexactly(length)


READERS = {"resp": read_resp, "http": read_http}


class Caller:
    """One connection; it is opened again after a failure, at its own node while `alive` says that it serves, else at the next."""

    def __init__(self, target, nodes, first, alive):
        self.target, self.nodes, self.node, self.alive = target, nodes, first, alive
        self.stream = None

    async def open(self):
        for _ in self.nodes:
            if self.alive(self.node):
                break
            self.node = (self.node + 1) % len(self.nodes)
        self.stream = await asyncio.open_connection("127.0.0.1", self.nodes[self.node])

    def close(self):
        if self.stream is not None:
            self.stream[1].close()
        self.stream = None

    async def converse(self, data):
        if self.stream is None:
            await self.open()
        reader, writer = self.stream
        writer.write(data)
        return self.target.verdict(await READERS[self.target.front](reader))

    async def ask(self, number):
        sent = time.monotonic()
        try:
            what = await asyncio.wait_for(self.converse(self.target.bytes_of(number)), PATIENCE)
        except (OSError, EOFError, ValueError, asyncio.TimeoutError):
            what = FAILED
            self.close()
        return Verdict(sent, time.monotonic(), what, self.node)


async def _run(target, nodes, seconds, rate, connections, alive, events):
    begun, count, verdicts = time.monotonic(), 0, []

    async def work(first):
        nonlocal count
        caller = Caller(target, nodes, first % len(nodes), alive)
        while time.monotonic() < begun + seconds:
            number, count = count, count + 1
            if rate is not None:
                await asyncio.sleep(begun + number / rate - time.monotonic())
            verdicts.append(await caller.ask(number))
        caller.close()

    async def happen(at, event):
        await asyncio.sleep(begun + at - time.monotonic())
        await asyncio.get_running_loop().run_in_executor(None, event)

    await asyncio.gather(*(work(number) for number in range(connections)), *(happen(*event) for event in events))
    return begun, verdicts


def run(target, nodes, seconds, rate=None, connections=48, alive=lambda node: True, events=()):
    """(begun, verdicts) of `seconds` of calls to the ports `nodes`, `rate` a second in all; `events`: (after seconds, function)."""
    return asyncio.run(_run(target, nodes, seconds, rate, connections, alive, events))
