"""The queue of the leaderboard: every job once, whatever happens to it and to its processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairseq_attn_plugin.corpora.locks import locked
from fairseq_attn_plugin.recipes.leaderboard import queue as queues
from fairseq_attn_plugin.recipes.leaderboard.queue import Queue

from cli import REPO

# appends a line to ``runs``, which shows how often the job ran
COUNT = "import pathlib; open('runs', 'a').write('x'); "
DONE = "pathlib.Path('done').write_text('')"


@dataclass(frozen=True)
class FakeJob:
    folder: Path
    code: str = COUNT + DONE

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        return self.folder / "job.lock"

    @property
    def log(self) -> Path:
        return self.folder / "job.log"

    def is_done(self) -> bool:
        return (self.folder / "done").is_file()

    def summary(self) -> str:
        return f"{self.name}: finished"

    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text()) if path.is_file() else 0


def command(job):
    return [sys.executable, "-c", f"import os; os.chdir({str(job.folder)!r}); {job.code}"]


def environment(job, lock):
    return {**os.environ, "LOCK": str(lock)}


def make(tmp_path, **codes):
    for name in codes:
        (tmp_path / name).mkdir(exist_ok=True)
    return [FakeJob(tmp_path / name, code) for name, code in codes.items()]


def run(jobs, processes=1):
    queue = Queue(jobs, command, environment)
    queue.run(processes)
    return queue.failures


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("processes", [1, 3])
def test_runs_every_job_once_and_goes_on_after_a_failure(tmp_path, capfd, processes):
    bad = COUNT + "print('line 1'); print('no space left\\n'); raise SystemExit(3)"
    jobs = make(tmp_path, a=COUNT + DONE, bad=bad, c=COUNT + DONE, lost=COUNT + "print('the result is missing')")
    failures = sorted(run(jobs, processes))
    assert [job.runs() for job in jobs] == [1, 1, 1, 1]
    assert [(one.name, one.reason, one.log) for one in failures] == [
        ("bad", "no space left", jobs[1].log),
        ("lost", "the result is missing", jobs[3].log),
    ]
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == [
        "a: finished", f"bad: failed, see {jobs[1].log}", "c: finished", f"lost: failed, see {jobs[3].log}",
    ]  # fmt: skip
    assert len(run(jobs)) == 2
    assert [job.runs() for job in jobs] == [1, 2, 1, 2], "finished jobs do not run again"
    assert "a: finished (done before)" in capfd.readouterr().out


def test_a_job_that_is_killed_has_failed_and_leaves_nothing_behind(tmp_path):
    child = "import subprocess, sys, signal; " + (
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "open('child', 'w').write(str(p.pid)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    jobs = make(tmp_path, a=child, b=COUNT + DONE)
    (failure,) = run(jobs)
    assert failure.name == "a" and "killed by signal 9" in failure.reason
    assert jobs[1].runs() == 1
    pid = int((tmp_path / "a" / "child").read_text())
    wait_for(lambda: not is_alive(pid))


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_two_queues_share_the_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(queues, "SECONDS", 0.05)
    slowly = "import time; time.sleep(0.1); " + COUNT + DONE
    jobs = make(tmp_path, **dict.fromkeys("abcdef", slowly))
    threads = [threading.Thread(target=run, args=(jobs, 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [job.runs() for job in jobs] == [1] * 6


def test_waits_for_a_job_that_another_process_runs_and_finishes_it(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(queues, "SECONDS", 0.05)
    jobs = make(tmp_path, a=COUNT + DONE, b=COUNT + DONE)
    with locked(jobs[0].lock):
        thread = threading.Thread(target=run, args=(jobs,))
        thread.start()
        wait_for(jobs[1].is_done)
        time.sleep(0.2)
        assert jobs[0].runs() == 0
    thread.join()
    assert [job.runs() for job in jobs] == [1, 1]
    assert capfd.readouterr().out.count("a: another process runs it") == 1


def test_a_process_that_outlives_its_job_keeps_the_lock(tmp_path):
    """A training whose parents were killed goes on: no other one may start in its folder."""
    outlives = (
        "import subprocess, sys; lock = int(os.environ['LOCK']); "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], pass_fds=[lock], "
        "start_new_session=True); open('child', 'w').write(str(p.pid))"
    )
    (job,) = make(tmp_path, a=outlives)
    (failure,) = run([job])
    assert failure.name == "a"
    pid = int((tmp_path / "a" / "child").read_text())
    try:
        with locked(job.lock, wait=False) as lock:
            assert lock is None
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    with locked(job.lock, wait=False) as lock:
        assert lock is not None


def test_the_jobs_of_a_killed_queue_end_and_run_again(tmp_path):
    """kill -9: the same jobs in a second queue, one of them done, one interrupted."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path[:0] = [{str(REPO)!r}, {str(Path(__file__).parent)!r}, {str(REPO / 'tests')!r}]\n"
        "import test_leaderboard_queue as test\n"
        "from pathlib import Path\n"
        "wait = ('import sys, time; sys.path.insert(0, %r); ' % sys.path[0] + test.COUNT +\n"
        "        'from fairseq_attn_plugin.recipes.leaderboard.queue import end_with_the_queue; '\n"
        '        \'end_with_the_queue(); open("pid", "w").write(str(os.getpid())); time.sleep(600)\')\n'
        f"test.run(test.make(Path({str(tmp_path)!r}), a=test.COUNT + test.DONE, b=wait))\n"
    )
    queue = subprocess.Popen([sys.executable, str(script)])
    pid = tmp_path / "b" / "pid"
    wait_for(lambda: pid.is_file() and pid.read_text(), 300)
    job = int(pid.read_text())
    assert is_alive(job)
    queue.kill()
    queue.wait()
    wait_for(lambda: not is_alive(job))
    jobs = make(tmp_path, a=COUNT + DONE, b=COUNT + DONE)
    assert run(jobs) == []
    assert [job.runs() for job in jobs] == [1, 2]
