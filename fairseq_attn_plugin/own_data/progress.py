"""Shows the progress in fairseq-train's JSON log, and keeps the log.

fairseq-train ... --log-format json 2>&1 | python -m fairseq_attn_plugin.own_data.progress LOG MAX_EPOCH

A terminal shows a progress bar with the time left until the last epoch, other outputs a line per epoch. MAX_EPOCH 0
means no limit.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any, Dict, Iterable, List

from tqdm import tqdm

__all__ = ["follow", "main", "parse"]


def parse(line: str) -> Dict[str, Any]:
    """The entry of a log line; empty if the line has none."""
    _, brace, rest = line.partition(" | {")
    try:
        return dict(json.loads("{" + rest)) if brace else {}
    except ValueError:  # fairseq also prints its configuration, which begins like an entry
        return {}


def follow(lines: Iterable[str], log: Any, max_epoch: int) -> List[str]:
    """Appends the lines to the file ``log``, and shows their progress until they end; returns the last ones."""
    start = time.monotonic()
    layout = "   {percentage:3.0f}% {bar:24} epoch {n:.1f}/{total:.0f} [{elapsed}<{remaining}]{postfix}"
    layout = layout if max_epoch else "   epoch {n:.1f} [{elapsed}]{postfix}"
    terminal = sys.stderr.isatty()
    bar = tqdm(total=max_epoch or None, bar_format=layout, disable=not terminal)
    shown: Dict[str, str] = {}
    last: List[str] = []
    done = -1.0
    with open(log, "a", encoding="utf-8") as stream, bar:
        for line in lines:
            stream.write(line)
            stream.flush()
            last = [*last[-9:], line]
            entry = parse(line)
            if not entry:
                continue
            for key, name in (("ppl", "train ppl"), ("train_ppl", "train ppl"), ("valid_ppl", "valid ppl")):
                if key in entry:
                    shown[name] = entry[key]
            bar.set_postfix(shown, refresh=False)
            progress = float(entry.get("update", entry.get("epoch", 0)))
            if done < 0:  # a training that continues does not begin at 0
                bar.initial = bar.n = progress if progress > 1 else 0
                done = bar.n
            bar.update(max(0.0, progress - done))
            done = max(done, progress)
            if "train_ppl" in entry and not terminal:
                epoch = "%d" % entry["epoch"] + ("/%d" % max_epoch if max_epoch else "")
                text = "   ".join(f"{name} {value}" for name, value in shown.items())
                print(f"   epoch {epoch:6} {text}   {time.monotonic() - start:.0f} s", flush=True)
    return last


def main(log: str, max_epoch: int) -> None:
    # fairseq-train handles interrupts; this program reads until the pipe ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow(sys.stdin, log, max_epoch)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
