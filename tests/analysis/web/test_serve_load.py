"""fairseq-attn serve answers many clients at once without an error, each with its own sentence's translation."""

import http.client
import itertools

import pytest
import serve_load

from fairseq_attn_plugin.analysis.inference.translator import Translator

from cli import start_cli

pytest.importorskip("fastapi", reason="NO TEST OF THE SERVER: fastapi is missing")

WORDS = "ama bel cor dun esk fim gol hus ilo jat".split()


def test_two_seconds_of_clients(tiny_data, zoo):
    texts = [" ".join(pair) for pair in itertools.permutations(WORDS, 2)]
    options = [tiny_data, "--path", zoo("lstm_soft").last, "--cpu", "--port", "0"]
    server = start_cli("fairseq-attn", "serve", *options)
    try:
        host, port = server.stdout.readline().split()[0].split("//")[1].split(":")
        report = serve_load.load(host, int(port), texts, clients=10, seconds=2, process=server.pid)
        assert report["answers"] == {"200": report["requests"]} and report["requests"] >= 10
        assert set(report["latency_ms"]) == {"50", "90", "95", "99", "100"}
        # the server goes on, and its answers are right
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        translator = Translator(str(tiny_data), str(zoo("lstm_soft").last), cpu=True)
        for text in texts[:5]:
            status, body = serve_load.ask(connection, text)
            assert status == 200 and body["translations"][0]["text"] == translator(text)[0].text
        connection.close()
    finally:
        server.kill()
        server.wait()


def test_a_server_that_refuses_is_counted(tiny_data, zoo):
    """The report tells answers of each state apart: here no request may wait."""
    server = start_cli(
        *("fairseq-attn", "serve", tiny_data, "--path", zoo("lstm_soft").last, "--cpu", "--port", "0", "--queue", "0")
    )
    try:
        host, port = server.stdout.readline().split()[0].split("//")[1].split(":")
        report = serve_load.load(host, int(port), ["ama bel cor"], clients=5, seconds=1, process=server.pid)
        assert set(report["answers"]) == {"200", "503"}
        assert sum(report["answers"].values()) == report["requests"]
    finally:
        server.kill()
        server.wait()


def test_percentiles():
    values = [float(number) for number in range(1, 101)]
    assert [serve_load.percentile(values, one) for one in (50, 99, 100)] == [50, 99, 100]
    assert serve_load.percentile([7.0], 50) == 7
    assert serve_load.shown(["--text", "/some/where/test.de", "--clients", "5"]) == "--text test.de --clients 5"
