"""The steps of scripts/gpu.sh, which sets the variables that are read here.

    python scripts/gpu_check.py environment|smoke|tests|benchmark|training    writes OUT/STEP.json
    python scripts/gpu_check.py summary                                       prints what the files say

A file is written anew whenever a part of its step begins or ends, so that a step that is killed leaves what it had.
"""

import importlib.metadata
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tabulate import tabulate

STEPS = ("smoke", "tests", "benchmark", "training")
OUT = Path(os.environ.get("OUT", "gpu-out"))
WORK = Path(os.environ.get("WORK", "."))  # the shell removes it
DEVICE = os.environ.get("DEVICE", "cuda")
CPU = DEVICE == "cpu"  # tiny sizes
REAL = os.environ.get("DATA")
DEADLINE = time.monotonic() + float(os.environ.get("LIMIT", "3600")) - 5  # after it the shell kills the step

TINY = "--encoder-embed-dim 16 --encoder-hidden-size 16 --decoder-embed-dim 16 --decoder-hidden-size 16".split()
TINY += "--encoder-layers 1 --decoder-layers 1 --decoder-out-embed-dim 16".split()
# stock fairseq's lstm gets the sizes of the plugin's architectures
STOCK = "--encoder-embed-dim 256 --encoder-hidden-size 256 --encoder-layers 2 --encoder-bidirectional".split()
STOCK += "--decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-layers 2 --decoder-out-embed-dim 256".split()
SYSTEMS = {
    "lstm": ["--arch", "lstm", *STOCK],
    "lstm_soft": ["--arch", "lstm_soft"],
    "lstm_adm": ["--arch", "lstm_adm"],
    "lstm_adm_aqt": ["--arch", "lstm_adm_aqt"],
    "structured": ["--arch", "lstm_soft", "--attention", "structured"],
    "lstm_adm graphs": (
        "--arch lstm_adm --cuda-graphs --optimizer fused_adam --num-batch-buckets 8 --max-tokens 4000".split()
    ),
    "latent": "--arch lstm_latent_small --criterion latent_alignment --objective elbo-enum".split(),
    "han": "--arch han --task document_classification --criterion document_classification".split(),
}
PRECISIONS = {"float32": [], "fp16": ["--fp16"], "bf16": ["--bf16"], "amp": ["--amp"]}
GRAPHED = ("lstm_soft", "lstm_adm", "lstm_adm_aqt", "lstm_soft:attention=structured", "lstm_soft:input_feeding=none")
GRAPHED = GRAPHED[:1] if CPU else GRAPHED
BENCHMARKED = ("lstm", *GRAPHED)
if not CPU:
    GRAPHS = "cuda_graphs=true,optimizer=fused_adam"
    BENCHMARKED += tuple(f"{name}{',' if ':' in name else ':'}{GRAPHS}" for name in GRAPHED)
TRAINED = ("lstm_soft", "lstm") if CPU else ("lstm", "lstm_adm graphs", "lstm_adm", "lstm_soft")


class Result:
    """OUT/STEP.json, whole at any time."""

    def __init__(self, step: str):
        self.path, self.began, self.lock = OUT / f"{step}.json", time.monotonic(), threading.Lock()
        self.values: dict[str, Any] = {"step": step, "device": DEVICE, "status": "running"}
        self.save()

    def save(self, **values: Any) -> None:
        with self.lock:
            self.values.update(values, seconds=round(time.monotonic() - self.began, 1))
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")
            os.replace(part, self.path)

    def finish(self, ok: bool) -> int:
        self.save(status="passed" if ok else "failed")
        return 0 if ok else 1


class Ran(NamedTuple):
    ok: bool
    error: str  # the error, otherwise the last line
    seconds: float
    text: str

    def fields(self) -> dict[str, Any]:
        return {"status": "ok" if self.ok else "failed", "seconds": round(self.seconds, 1), "error": self.error}


def run(name: str, *words: object) -> Ran:
    """Runs a command until the deadline; its output goes to WORK/log/NAME, and then into OUT/log.txt."""
    log, began = WORK / "log" / name, time.monotonic()
    log.parent.mkdir(exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        command = [str(word) for word in words]
        stream.write(" ".join(command) + "\n")
        stream.flush()
        left = max(1.0, DEADLINE - began)
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, timeout=left
            )
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = None
        except OSError as problem:  # no such command
            stream.write(f"{problem}\n")
            status = 127
    text = log.read_text(encoding="utf-8", errors="replace")
    with open(OUT / "log.txt", "a", encoding="utf-8") as whole:
        whole.write(f"== {name}\n{text}")
    lines = [line for line in text.splitlines() if line.strip()]
    # the last line of a CUDA error is the same advice for all of them
    last = next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])
    error = "" if status == 0 else "stopped at the limit of the step" if status is None else last[:300]
    return Ran(status == 0, error, time.monotonic() - began, text)


def logged(text: str, kind: str) -> list[dict[str, float]]:
    """The numbers that fairseq-train --log-format json logs as ``kind``."""
    found = re.findall(rf"\| {kind} \| (\{{.*?\}})", text)
    return [{name: float(value) for name, value in json.loads(line).items()} for line in found]


def train(name: str, data: object, system: str, precision: str, *options: object) -> Ran:
    words = [*SYSTEMS[system], *(TINY if CPU and system != "han" else []), *PRECISIONS[precision]]
    fixed = "--user-dir fairseq_attn_plugin --optimizer adam --lr 3e-3 --clip-norm 5 --seed 1 --log-format json"
    device = ["--cpu"] if CPU else []
    return run(name, "fairseq-train", data, *fixed.split(), *words, *options, *device)


def generate(name: str, data: object, checkpoint: Path, precision: str, *options: object) -> Ran:
    fixed = "--user-dir fairseq_attn_plugin --gen-subset test --beam 10 --batch-size 100".split()
    device = ["--cpu"] if CPU else []
    words = [*fixed, "--path", checkpoint, *PRECISIONS[precision], *options, *device]
    return run(name, "fairseq-generate", data, *words)


# ---- the environment


def environment() -> int:
    import torch
    from benchmark.measure import environment as of_machine

    result, versions = Result("environment"), {}
    for distribution in importlib.metadata.distributions():
        # the first on the path is the one that is imported
        versions.setdefault(distribution.metadata["Name"].lower(), distribution.version)
    driver = "" if CPU else run("driver", "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv")
    about = {"machine": of_machine(torch.device(DEVICE)), "driver": driver and driver.text.splitlines()[-1]}
    result.save(**about, packages=dict(sorted(versions.items())))
    return result.finish(True)


# ---- smoke: a few updates of each kind of model in each precision, and translations


def smoke() -> int:
    precisions = ("float32", "bf16") if CPU else tuple(PRECISIONS)
    systems = ("lstm", "lstm_soft", "han") if CPU else tuple(SYSTEMS)
    result, runs = Result("smoke"), {}

    def record(name: str, fields: dict[str, Any]) -> None:
        runs[name] = fields
        result.save(runs=dict(runs))

    def check(system: str, precision: str) -> None:
        name, folder = f"{system}, {precision}", WORK / f"{system}.{precision}"
        record(name, {"status": "running"})
        data = WORK / ("documents" if system == "han" else "toy")
        steps = ["--max-update", 5 if CPU else 20, "--batch-size", 16 if CPU else 64, "--log-interval", 5]
        saved = ["--save-dir", folder] if precision == "float32" else ["--no-save"]
        done = train(name, data, system, precision, *steps, *saved, "--num-workers", 0, "--disable-validation")
        losses = [line["loss"] for line in logged(done.text, "train_inner")]
        fields = {**done.fields(), "loss": losses[-1] if losses and math.isfinite(losses[-1]) else None}
        if done.ok and not (losses and all(map(math.isfinite, losses))):
            fields.update(status="failed", error=f"losses that are no numbers: {losses}")
        if done.ok and "graphs" in system and "is captured" not in done.text:
            said = re.findall(r"--cuda-graphs: .*", done.text)
            fields.update(status="failed", error=said[0] if said else "no training step was captured")
        record(name, fields)
        if precision != "float32" or system == "han" or fields["status"] != "ok":
            return
        for half in ("float32", "fp16")[: 1 if CPU else 2]:
            name = f"{system}, beam 10, {half}"
            record(name, {"status": "running"})
            done = generate(name, WORK / "toy", folder / "checkpoint_last.pt", half, "--max-len-b", 50)
            scores = [float(score) for score in re.findall(r"^H-\d+\t(\S+)", done.text, re.MULTILINE)]
            fields, wanted = done.fields(), len(re.findall(r"^T-", done.text, re.MULTILINE))
            if done.ok and not (wanted == len(scores) > 0 and all(map(math.isfinite, scores))):
                fields.update(status="failed", error=f"{len(scores)} hypotheses of {wanted}, or scores without value")
            record(name, fields)

    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        wanted = [pool.submit(check, system, precision) for precision in precisions for system in systems]
    for one in wanted:
        one.result()
    for name, fields in runs.items():  # what stock fairseq cannot do either is marked, and is no failure of the plugin
        stock = runs.get("lstm" + name[name.index(",") :], {})
        if fields["status"] == "failed" and stock.get("status") in ("failed", "stock fails"):
            same = fields["error"] == stock["error"] and not fields["error"].startswith("stopped")
            alike = name.startswith("lstm,") or same
            fields["status"] = "stock fails" if alike else "failed"
    return result.finish(all(fields["status"] != "failed" for fields in runs.values()))


# ---- tests/test_gpu.py


class Recorder:
    """A plugin of pytest that writes outcomes as they come."""

    def __init__(self, result: Result):
        self.result, self.saved = result, 0.0
        self.outcomes: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.total, self.reason = 0, ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self.total = len(ids)

    def pytest_collectreport(self, report: Any) -> None:
        if report.skipped:
            self.reason = str(report.longrepr[2])
        elif report.failed:
            self.errors[report.nodeid] = self.outcomes[report.nodeid] = "failed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome
        if report.failed:
            lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            self.errors[report.nodeid] = " ".join(lines[:2])[:300]
        if time.monotonic() > self.saved + 1:
            self.save()

    def save(self) -> None:
        self.saved, said = time.monotonic(), list(self.outcomes.values())
        counts = {outcome: said.count(outcome) for outcome in ("passed", "failed", "skipped")}
        counts["not reached"] = max(0, self.total - len(said))
        self.result.save(counts=counts, reason=self.reason, errors=self.errors, outcomes=self.outcomes)


def tests() -> int:
    if CPU:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    result = Result("tests")
    recorder = Recorder(result)
    words = ["tests/test_gpu.py", "-v", "-p", "no:cacheprovider", "--tb=short", "--basetemp", str(WORK / "pytest")]
    if torch.cuda.is_available():  # chunks of two keep the order of the file
        words += ["-n", str(min(16, os.cpu_count() or 1)), "--dist", "load", "--maxschedchunk", "2"]
    pytest.main(words, plugins=[recorder])
    recorder.save()
    if recorder.reason and not recorder.outcomes:
        result.save(status="skipped")
        return 0
    return result.finish(not recorder.errors and "passed" in recorder.outcomes.values())


# ---- the benchmark


def benchmark() -> int:
    import torch
    from bench import build_systems
    from benchmark.busy import update, work_of
    from benchmark.command_line import parse
    from benchmark.systems import make_batch

    result, errors = Result("benchmark"), {}
    sizes = ["--quick"] if CPU else "--lengths 10,25 --tokens 4000 --decode-tokens 1000".split()
    for section, archs in (("train", BENCHMARKED), ("decode", ("lstm", *GRAPHED))):  # --cuda-graphs is of trainings
        file = WORK / f"{section}.json"
        words = ["scripts/bench.py", "--device", DEVICE, "--sections", section, *sizes, "--json", file]
        done = run(f"bench {section}", sys.executable, *words, "--archs", *archs)
        if not done.ok:
            errors[section] = done.error
            result.save(errors=errors)
            continue
        report = json.loads(file.read_text(encoding="utf-8"))
        for measured in report["sections"][section].values():
            del measured["raw"]
        result.save(**{section: report["sections"][section]}, settings=report["settings"])

    device, args = torch.device(DEVICE), parse([*sizes, "--device", DEVICE])
    length, busy = args.lengths[len(args.lengths) // 2], {}
    for name in BENCHMARKED:
        (system,) = build_systems([name], args, device).values()
        batch = make_batch(system.task, length, args.tokens, args.seed, device)
        busy[name] = work_of(lambda system=system, batch=batch: update(system, batch), device)
        result.save(busy={"length": length, "tokens": args.tokens, "systems": busy})
    return result.finish(not errors)


# ---- three epochs of a real corpus


def training() -> int:
    result, runs, longest = Result("training"), {}, 0.0
    data = Path(REAL or WORK / "toy")
    options = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.2 --max-epoch 3".split()
    options += ["--max-tokens", 4000 if REAL else 600, "--no-epoch-checkpoints", "--log-interval", 20]
    result.save(data="DATA" if REAL else "invented corpus", options=" ".join(map(str, options)))

    def translate(system: str, precision: str) -> None:
        name, fields = f"{system}, {precision}", runs[f"{system}, {precision}"]
        scoring = ["--scoring", "sacrebleu", "--sacrebleu-tokenizer", "none", "--remove-bpe"]
        done = generate(f"{name}, beam 10", data, WORK / name / "checkpoint_best.pt", precision, *scoring)
        bleu = re.findall(r"BLEU = ([\d.]+)", done.text)
        speed = re.findall(r"([\d.]+) tokens/s", done.text)
        fields["translation"] = {
            **done.fields(),
            "bleu": bleu and float(bleu[-1]),
            "words/s": speed and float(speed[-1]),
        }
        if not (done.ok and bleu):
            fields["status"], fields["error"] = "failed", done.error or "fairseq-generate printed no BLEU"
        result.save(runs=runs)

    for precision in ("float32",) if CPU else ("float32", "fp16", "bf16"):
        began, trained = time.monotonic(), []
        for system in TRAINED:
            name = f"{system}, {precision}"
            if time.monotonic() + longest > DEADLINE:
                runs[name] = {"status": "skipped", "error": "no time left"}
                continue
            runs[name] = {"status": "running"}
            result.save(runs=runs)
            done = train(name, data, system, precision, *options, "--save-dir", WORK / name)
            epochs = logged(done.text, "train")
            perplexities = [epoch["valid_ppl"] for epoch in logged(done.text, "valid")]
            runs[name] = {
                **done.fields(),
                "valid_ppl": perplexities,
                "words/s": [epoch["train_wps"] for epoch in epochs],
                "translation": {},
            }
            if done.ok and (len(perplexities) != 3 or not all(map(math.isfinite, perplexities))):
                runs[name].update(status="failed", error=f"validation perplexities {perplexities}")
            trained += [system] if runs[name]["status"] == "ok" else []
            longest = max(longest, done.seconds)
            result.save(runs=runs)
        with ThreadPoolExecutor(len(TRAINED)) as pool:
            list(pool.map(lambda system, precision=precision: translate(system, precision), trained))
        longest = max(longest, (time.monotonic() - began) / max(1, len(trained)))
    return result.finish(all(fields["status"] != "failed" for fields in runs.values()))


# ---- the summary


aligned = partial(tabulate, tablefmt="plain", disable_numparse=True)


def cell(fields: dict[str, Any], value: str) -> str:
    """A value of a run that went well, otherwise what became of it."""
    return str(fields.get(value, "ok")) if fields.get("status") == "ok" else fields.get("status", "")


def run_rows(runs: dict[str, Any], value: str) -> list[list[Any]]:
    """Systems by what was done with them."""
    columns = list(dict.fromkeys(name.split(", ", 1)[1] for name in runs))
    systems = list(dict.fromkeys(name.split(", ", 1)[0] for name in runs))
    rows = [[system, *(cell(runs.get(f"{system}, {one}", {}), value) for one in columns)] for system in systems]
    return [["", *columns], *rows]


def training_rows(runs: dict[str, Any]) -> list[list[Any]]:
    rows = [["", "words/s", "validation perplexity", "BLEU"]]
    for name, fields in runs.items():
        done, bleu = fields.get("status") == "ok", fields.get("translation", {}).get("bleu", "")
        rows.append(
            [name, fields["words/s"][-1], fields["valid_ppl"], bleu] if done else [name, fields["status"], "", ""]
        )
    return rows


def benchmark_rows(values: dict[str, Any]) -> list[list[Any]]:
    rows = [["", "words/s", "MiB", "words/s, beam", "kernels", "waits", "busy"]]
    busy = values.get("busy", {"systems": {}})
    at = str(busy.get("length"))
    for name in BENCHMARKED:
        trained, decoded = (
            values.get(part, {}).get(at, {}).get("systems", {}).get(name) for part in ("train", "decode")
        )
        work = busy["systems"].get(name)
        row = [f"{trained['tokens_per_second']:,.0f}", f"{trained['peak_memory_bytes'] >> 20}"] if trained else ["", ""]
        row += [f"{decoded['tokens_per_second']:,.0f}" if decoded else ""]
        rows.append([name, *row, *([work["kernels"], work["waits"], f"{work['busy']:.0%}"] if work else ["", "", ""])])
    return rows


def summary() -> int:
    rows, details, ok = [["step", "result", "seconds", ""]], [], True
    for step in STEPS:
        try:
            values = json.loads((OUT / f"{step}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        status = "stopped" if values["status"] == "running" else values["status"]
        ok = ok and status in ("passed", "skipped")
        counts = ", ".join(f"{count} {what}" for what, count in values.get("counts", {}).items())
        rows.append([step, status, values["seconds"], values.get("reason") or counts])
        runs = values.get("runs", {})
        if step == "smoke":
            details.append("Loss after the updates\n" + aligned(run_rows(runs, "loss")))
        elif step == "benchmark":
            details.append("Training steps and search\n" + aligned(benchmark_rows(values)))
        elif step == "training":
            details.append(f"Three epochs, {values.get('data')}\n" + aligned(training_rows(runs)))
        wrong = {**values.get("errors", {}), **{name: one["error"] for name, one in runs.items() if one.get("error")}}
        if wrong:
            details.append("\n".join(f"{step}: {name}: {error}" for name, error in list(wrong.items())[:20]))
    print("\n\n".join([*details, aligned(rows)]))
    return 0 if ok and len(rows) > 1 else 1


if __name__ == "__main__":
    steps = {one.__name__: one for one in (environment, smoke, tests, benchmark, training, summary)}
    sys.exit(steps[sys.argv[1]]())
