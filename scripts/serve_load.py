#!/usr/bin/env python3
"""Loads ``fairseq-attn serve`` on the loopback: many clients that ask again as soon as they have an answer.

    python scripts/serve_load.py --text test.de --clients 50 --seconds 60 --json load.json -- \\
        data --path checkpoint_best.pt --bpe-codes codes

What follows ``--`` are the arguments of ``fairseq-attn serve``, which this script starts at a free port and ends. The
clients take turns with the lines of ``--text``; each has one connection. The report has the answers by state, the
latencies by percentile, and the memory of the server, read every half second (on Linux).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

LIMIT = 120.0  # seconds for one answer, and for the server to start or end
PERCENTILES = (50, 90, 95, 99, 100)


def ask(connection: http.client.HTTPConnection, text: str, path: str = "/translate") -> tuple[int, Any]:
    """State and JSON of the answer to a sentence; of an answer of lines, the last one."""
    connection.request("POST", path, json.dumps({"text": text}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read().splitlines()[-1])


def client(
    host: str, port: int, texts: list[str], first: int, end: float, found: list[tuple[str, float, str]], path: str
) -> None:
    """Asks until ``end``; appends the state, the seconds and the text of every question."""
    connection = http.client.HTTPConnection(host, port, timeout=LIMIT)
    number = first
    while time.perf_counter() < end:
        start = time.perf_counter()
        text = texts[number % len(texts)]
        try:
            status, body = ask(connection, text, path)
            state = str(status) if "translations" in body or status != 200 else "200 without translations"
        except (OSError, http.client.HTTPException, ValueError) as error:
            state = type(error).__name__
            connection.close()
        found.append((state, time.perf_counter() - start, text))
        number += 1
    connection.close()


def memory(process: int) -> float:
    """Resident memory in MiB, or NaN where the system does not say."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return math.nan


def load(
    host: str, port: int, texts: list[str], clients: int, seconds: float, process: int, path: str = "/translate"
) -> dict[str, Any]:
    """The report of a load on a server that runs; ``process`` is the number of its process."""
    found: list[tuple[str, float, str]] = []
    begin = time.perf_counter()
    threads = [
        threading.Thread(target=client, args=(host, port, texts, number, begin + seconds, found, path))
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    held = []
    while any(thread.is_alive() for thread in threads):
        held.append(memory(process))
        time.sleep(0.5)
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    good = sorted(1000 * seconds for state, seconds, _ in found if state == "200")
    settled = held[len(held) // 4 :]
    return {
        "clients": clients,
        "seconds": round(took, 1),
        "requests": len(found),
        "answers": dict(collections.Counter(state for state, _, _ in found)),
        "per_second": round(len(good) / took, 1),
        "latency_ms": {str(one): round(percentile(good, one)) for one in PERCENTILES} if good else {},
        "memory_mib": {
            "first": round(held[0], 1),
            "after_a_quarter": round(settled[0], 1),
            "last": round(held[-1], 1),
            "greatest": round(max(held), 1),
        },
    }


def percentile(values: list[float], percent: float) -> float:
    """The least value that is not below ``percent`` of the sorted values."""
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)]


@contextlib.contextmanager
def server(arguments: list[str]) -> Iterator[tuple[str, int, int]]:
    """Host, port and process of ``fairseq-attn serve`` with these arguments; raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "fairseq_attn_plugin.analysis.cli", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()
        if not address:
            raise RuntimeError("fairseq-attn serve has not started")
        host, _, port = address[0].split("//")[1].rpartition(":")
        yield host, int(port), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()


def shown(words: list[str]) -> str:
    """A command without the folders of its files."""
    return " ".join(Path(word).name if os.sep in word else word for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description="Loads fairseq-attn serve on the loopback.")
    parser.add_argument("--text", required=True, metavar="FILE", help="sentences, one in a line")
    parser.add_argument("--clients", type=int, default=50, metavar="N", help="at a time (default: 50)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="X", help="of load (default: 60)")
    parser.add_argument("--json", metavar="FILE", help="also write the report there")
    parser.add_argument("serve", nargs="+", metavar="ARGUMENT", help="of fairseq-attn serve, after --")
    args = parser.parse_args()
    texts = Path(args.text).read_text(encoding="utf-8").splitlines()
    with server(args.serve) as (host, port, process):
        connection = http.client.HTTPConnection(host, port, timeout=LIMIT)
        ask(connection, texts[0])  # the first one compiles
        connection.close()
        report = load(host, port, texts, args.clients, args.seconds, process)
    threads = os.environ.get("OMP_NUM_THREADS")
    setting = [f"OMP_NUM_THREADS={threads}"] if threads else []
    command = " ".join([*setting, "python scripts/serve_load.py", shown(sys.argv[1:])])
    report = {"command": command, "cpus": os.cpu_count(), **report}
    text = json.dumps(report, indent=1) + "\n"
    sys.stdout.write(text)
    if args.json:
        Path(args.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
