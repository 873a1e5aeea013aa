"""fairseq-attn serve goes on while others hold connections open, or leave."""

import asyncio
import gc
import http.client
import socket
import time

import pytest

pytest.importorskip("fastapi", reason="NO TEST OF THE SERVER: fastapi is missing")

from uvicorn import Config, Server

from fairseq_attn_plugin.analysis.web import connections
from fairseq_attn_plugin.analysis.web.connections import Connection
from fairseq_attn_plugin.analysis.web.server import bind
from fairseq_attn_plugin.analysis.web.waiting import Line

HALF = b"GET / HTTP/1.1\r\n"


async def answer(scope, receive, send):
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def served(client, **bounds):
    """What ``client(port)`` returns, run in a thread beside a server."""

    async def both():
        listener = bind("127.0.0.1", 0)
        server = Server(Config(answer, log_level="warning", http=Connection, ws="none", lifespan="off"))
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            return await asyncio.to_thread(client, listener.getsockname()[1])
        finally:
            server.should_exit = server.force_exit = True
            await task
            listener.close()

    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(connections, name, value)
        return asyncio.run(both())


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    return connection.getresponse().read()


def closed(one):
    """Whether the server has closed a connection, within some seconds."""
    one.settimeout(5)
    try:
        while one.recv(1000):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("part", [HALF, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"])
def test_half_requests_leave_room_for_whole_ones(part):
    def client(port):
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for one in half:
            one.sendall(part)
        answers = [ask(port) for _ in range(3)]
        gone = sum(map(closed, half[:12]))
        for one in half:
            one.close()
        return answers, gone

    assert served(client, MOST=8) == ([b"ok"] * 3, 12)


def test_headers_that_do_not_arrive_end_the_connection():
    def client(port):
        half = socket.create_connection(("127.0.0.1", port))
        half.sendall(HALF)
        late = closed(half)
        # a second request on a connection whose first one was answered
        again = socket.create_connection(("127.0.0.1", port))
        again.sendall(HALF + b"Host: x\r\n\r\n")
        first = again.recv(1000)
        again.sendall(HALF)
        return late, b"200 OK" in first, closed(again)

    assert served(client, SECONDS=0.3) == (True, True, True)


def test_an_exception_of_work_that_nobody_waits_for_is_dropped():
    said = []

    async def leave():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context["message"]))
        line = Line(1)

        def work():
            time.sleep(0.2)
            raise ValueError("stopped")

        job = asyncio.ensure_future(line(work))
        await asyncio.sleep(0.05)
        job.cancel()
        await asyncio.wait([job])
        await asyncio.sleep(0.4)

    asyncio.run(leave())
    gc.collect()
    assert said == []
