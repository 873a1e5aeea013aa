"""A system in a process of its own: reads requests from standard input and answers each with one line of JSON.

    python worker.py TOOL SETTINGS.json

TOOL is a module of this folder with a class ``System(settings)``; it runs in the environment of its tool:

- ``train(batch)``: one update with the training sentences of these numbers; returns the loss as the tool has it
- ``translate(batch)``: the translations of the test sentences of these numbers, as segmented text
- ``save(path)``, ``parameters()``, ``versions()``

Output of the tools goes to standard error. Seconds are taken here, around the same work for all tools: making a batch
from the loaded corpus, forward, loss, backward, clipping, the update; or making a batch, search, and text.
"""

import importlib
import json
import os
import platform
import sys
import time

import torch


def timed(work):
    """The result of a call, and its processor and wall-clock seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def answer(system, request):
    if request["do"] == "train":
        losses, seconds = timed(lambda: [float(system.train(batch)) for batch in request["batches"]])
        words = request["words"] / seconds["cpu"]
        print(f"{len(losses)} updates, loss {sum(losses) / len(losses):.3f}, {words:,.0f} words/s", file=sys.stderr)
        return {**seconds, "loss": sum(losses) / len(losses)}
    if request["do"] == "translate":
        lines, seconds = timed(lambda: [system.translate(batch) for batch in request["batches"]])
        return {**seconds, "lines": lines}
    system.save(request["path"])
    return {}


def main():
    tool, settings = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a tool prints
    torch.set_num_threads(1)
    with open(settings, encoding="utf-8") as stream:
        settings = json.load(stream)
    torch.manual_seed(settings["seed"])
    system = importlib.import_module(tool).System(settings)
    versions = {"python": platform.python_version(), "torch": torch.__version__, **system.versions()}
    reply = {"versions": versions, "parameters": system.parameters()}
    while True:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        line = sys.stdin.readline()
        if not line:
            return
        reply = answer(system, json.loads(line))


if __name__ == "__main__":
    main()
