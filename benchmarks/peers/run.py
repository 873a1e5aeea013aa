#!/usr/bin/env python3
"""Compares the plugin with joeynmt, OpenNMT-py and stock fairseq: training, translation, and BLEU at equal updates.

    bash benchmarks/peers/setup.sh
    fairseq-attn recipe multi30k prepare
    python benchmarks/peers/run.py                                           # hours, on one thread
    python benchmarks/peers/run.py --updates 60 --systems joeynmt lstm_soft  # a first look

Every system runs in a process of its own and in the environment of its tool. In each round all of them train, one after
the other, on the same batches; afterwards all of them translate the same test sentences with the checkpoints.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sacrebleu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.report import markdown
from peers.systems import BASELINES, HERE, ROOT, SYSTEMS, settings


class PeerError(Exception):
    """What a user can repair, in one line."""


class Worker:
    """A process of one system; see ``workers/worker.py``."""

    def __init__(self, name: str, tool: str, content: dict[str, Any], work: Path):
        self.name, self.log = name, work / f"{name}.log"
        path = work / f"{name}.json"
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        command = [python_of(tool), "-W", "ignore", str(HERE / "workers" / "worker.py"), f"{tool}_worker", str(path)]
        one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **one}
            )

    def reply(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            last = (self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"])[-1]
            raise PeerError(f"{self.name} stopped: {last} ({self.log})")
        return json.loads(line)

    def ask(self, **request: Any) -> dict[str, Any]:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.reply()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def python_of(tool: str) -> str:
    """The interpreter of a tool.

    Raises:
        PeerError: the environment is missing
    """
    if tool == "fairseq":
        return sys.executable
    folder = Path(os.environ.get("PEERS_ENVS") or HERE / ".envs") / tool
    if not (folder / ".stamp").is_file():
        raise PeerError(f"{folder} is missing: run 'bash benchmarks/peers/setup.sh' (PEERS_ENVS chooses the folder)")
    return str(folder / "bin" / "python")


def read_lengths(prefix: Path) -> list[tuple[int, int]]:
    """Source and target words of every sentence, each with its end."""
    sides = [Path(f"{prefix}.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    return [(len(source.split()) + 1, len(target.split()) + 1) for source, target in zip(*sides)]


def training_batches(lengths: Sequence[tuple[int, int]], tokens: int, seed: int) -> Iterator[list[int]]:
    """Batches without end: sentences of like length, at most ``tokens`` words with padding on the longer side."""
    shuffle = random.Random(seed)
    while True:
        order = sorted(range(len(lengths)), key=lambda n: (max(lengths[n]), lengths[n], shuffle.random()))
        batches: list[list[int]] = [[]]
        for number in order:
            if (len(batches[-1]) + 1) * max(lengths[number]) > tokens and batches[-1]:
                batches.append([])
            batches[-1].append(number)
        shuffle.shuffle(batches)
        yield from batches


def rounds(workers: Sequence[Worker], requests: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The answers of every worker, round by round; each round starts with another worker."""
    answers: dict[str, list[dict[str, Any]]] = {worker.name: [] for worker in workers}
    for turn, request in enumerate(requests):
        shift = turn % len(workers)
        for worker in [*workers[shift:], *workers[:shift]]:
            answers[worker.name].append(worker.ask(**request))
        line = " ".join(f"{name} {list_[-1]['cpu']:.1f}s" for name, list_ in answers.items())
        print(f"{request['do']} {turn + 1}/{len(requests)}: {line}", file=sys.stderr, flush=True)
    return answers


def open_workers(content: dict[str, tuple[str, dict[str, Any]]], work: Path) -> tuple[list[Worker], dict[str, Any]]:
    """Starts the workers; also what each says of itself. One that does not start is left out, and that is said.

    Raises:
        PeerError: none starts
    """
    systems = {}
    started = [Worker(name, tool, its, work) for name, (tool, its) in content.items()]
    for worker in started:
        try:
            systems[worker.name] = worker.reply()
        except PeerError as error:
            print(f"peers: left out: {error}", file=sys.stderr)
    if not systems:
        raise PeerError(f"no system starts: see the logs in {work}")
    return [worker for worker in started if worker.name in systems], systems


def train(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    lengths = read_lengths(arguments.data / "segmented" / "train")
    batches = training_batches(lengths, arguments.tokens, arguments.seed)
    requests = []
    for _ in range(arguments.updates // arguments.per_round):
        chosen = [next(batches) for _ in range(arguments.per_round)]
        words = sum(lengths[number][1] for batch in chosen for number in batch)
        requests.append({"do": "train", "batches": chosen, "words": words})
    content = {
        name: (SYSTEMS[name].tool, settings(name, arguments.data, work, arguments.seed)) for name in arguments.systems
    }
    workers, systems = open_workers(content, work)
    answers = rounds(workers, requests)
    for worker in workers:
        worker.ask(do="save", path=str(work / f"{worker.name}.pt"))
        worker.close()
        systems[worker.name]["rounds"] = [
            {**answer, "words": request["words"]} for answer, request in zip(answers[worker.name], requests)
        ][arguments.warmup :]
    return systems


def translate(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    lengths = read_lengths(arguments.data / "segmented" / "test")[: arguments.sentences]
    order = sorted(range(len(lengths)), key=lambda n: lengths[n][0])
    batches = [order[start : start + 64] for start in range(0, len(order), 64)]
    words = sum(source for source, _ in lengths)
    content = {}
    for name in arguments.systems:
        for decoder, extra in SYSTEMS[name].decoders:
            its = settings(name, arguments.data, work, arguments.seed, str(work / f"{name}.pt"), extra)
            content[", ".join(filter(None, (name, decoder)))] = (SYSTEMS[name].tool, its)
    workers, systems = open_workers(content, work)
    warm = {"do": "translate", "batches": batches[:1]}
    answers = rounds(workers, [warm, *[{"do": "translate", "batches": batches}] * arguments.translations])
    references = (arguments.data / "text" / "test.en").read_text(encoding="utf-8").splitlines()[: len(lengths)]
    for worker in workers:
        worker.close()
        measured = answers[worker.name][1:]
        lines = dict(zip(order, (line for batch in measured[-1]["lines"] for line in batch)))
        hypotheses = [lines[number].replace("@@ ", "") for number in range(len(references))]
        (work / f"{worker.name}.hyp").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
        score = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", lowercase=True, force=True)
        systems[worker.name]["rounds"] = [{"cpu": m["cpu"], "wall": m["wall"], "words": words} for m in measured]
        systems[worker.name].update(bleu=score.score, words_out=sum(len(line.split()) for line in lines.values()))
    return systems


def command(how: dict[str, Any]) -> str:
    """The command of these settings; None is an option that was not given."""
    words = ["python", "benchmarks/peers/run.py"]
    for key, value in how.items():
        if value is not None:
            words += [f"--{key.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = ROOT / "out" / "multi30k" / "de-en.subword-nmt8000" / "data"
    parser.add_argument("--data", type=Path, default=default, help="data folder of the prepared recipe (%(default)s)")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "peers", help="for checkpoints and logs")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "multi30k", help="PATH of PATH.json and PATH.md")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--per-round", type=int, default=20, help="updates of a system in one round (%(default)s)")
    parser.add_argument("--warmup", type=int, default=1, help="rounds of training without timing (%(default)s)")
    parser.add_argument("--translations", type=int, default=3, help="rounds of the whole test set (%(default)s)")
    parser.add_argument("--sentences", type=int, default=1000, help="of the test set (%(default)s)")
    parser.add_argument("--tokens", type=int, default=2000, help="of a training batch (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("train", "translate"), help="the other part is read from PATH.json")
    options = parser.parse_args(arguments)
    try:
        if not (options.data / "bin").is_dir():
            raise PeerError(f"{options.data} is no prepared recipe: run 'fairseq-attn recipe multi30k prepare'")
        if options.updates // options.per_round <= options.warmup:
            raise PeerError(f"--updates {options.updates}: must be more than {options.warmup} rounds of warm-up")
        for name in options.systems:
            python_of(SYSTEMS[name].tool)
        options.work.mkdir(parents=True, exist_ok=True)
        files = [options.out.with_suffix(suffix) for suffix in (".json", ".md")]
        report: dict[str, Any] = json.loads(files[0].read_text()) if options.only and files[0].is_file() else {}
        # without the paths of this machine
        how = {key: value for key, value in vars(options).items() if not isinstance(value, Path)}
        facts = {"command": command(how), "machine": machine(), "settings": how, "baselines": BASELINES}
        for stage in (train, translate):
            if options.only in (None, stage.__name__):
                report[stage.__name__] = {**facts, "systems": stage(options, options.work)}
                files[0].parent.mkdir(parents=True, exist_ok=True)
                files[0].write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        files[1].write_text(markdown(report), encoding="utf-8")
    except PeerError as error:
        sys.exit(f"peers: {error}")
    print(markdown(report))


if __name__ == "__main__":
    main()
