"""Shows the progress in fairseq-train's JSON log, and keeps the log.

fairseq-train ... --log-format json 2>&1 | python scripts/demo_progress.py LOG MAX_EPOCH

A terminal shows a progress bar, other outputs a line per epoch. MAX_EPOCH 0 means no limit.
"""

import json
import signal
import sys
import time

from tqdm import tqdm


def parse(line: str) -> dict:
    """The entry of a log line; empty if the line has none."""
    _, brace, rest = line.partition(" | {")
    try:
        return json.loads("{" + rest) if brace else {}
    except ValueError:  # fairseq also prints its configuration, which begins like an entry
        return {}


def main(log: str, max_epoch: int) -> None:
    # fairseq-train handles interrupts; this script reads until the pipe ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start = time.monotonic()
    layout = "   {percentage:3.0f}% {bar:24} epoch {n:.1f}/{total:.0f} [{elapsed}<{remaining}]{postfix}"
    layout = layout if max_epoch else "   epoch {n:.1f} [{elapsed}]{postfix}"
    terminal = sys.stderr.isatty()
    bar = tqdm(total=max_epoch or None, bar_format=layout, disable=not terminal)
    shown = {}
    done = 0.0
    with open(log, "a", encoding="utf-8") as stream, bar:
        for line in sys.stdin:
            stream.write(line)
            stream.flush()
            entry = parse(line)
            if not entry:
                continue
            for key, name in (("ppl", "train ppl"), ("train_ppl", "train ppl"), ("valid_ppl", "valid ppl")):
                if key in entry:
                    shown[name] = entry[key]
            bar.set_postfix(shown, refresh=False)
            progress = float(entry.get("update", entry.get("epoch", 0)))
            bar.update(max(0.0, progress - done))
            done = max(done, progress)
            if "train_ppl" in entry and not terminal:
                epoch = "%d" % entry["epoch"] + ("/%d" % max_epoch if max_epoch else "")
                text = "   ".join(f"{name} {value}" for name, value in shown.items())
                print(f"   epoch {epoch:6} {text}   {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
