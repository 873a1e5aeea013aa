"""Downloads and archives: nothing half-written is taken for whole."""

import http.server
import io
import random
import tarfile
import threading
import zipfile

import pytest
from recipe_corpora import complaint, multi30k, sentences, truncate

from fairseq_attn_plugin.recipes import downloads
from fairseq_attn_plugin.recipes.commands import Shell
from fairseq_attn_plugin.recipes.downloads import extract_members, fetch, unpack
from fairseq_attn_plugin.recipes.errors import CorpusError, OptionError

CONTENT = random.Random(0).getrandbits(8 * 300000).to_bytes(300000, "little")


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT; ``script`` has what happens to each request in turn: a status, or the bytes sent before the end.

    ``tag`` is the version of the file, and ``requests`` are the headers that came.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.tag, self.requests, self.content = [], '"1"', [], CONTENT
        self.url = f"http://127.0.0.1:{self.server_address[1]}/file"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        action = server.script.pop(0) if server.script else None
        if action is not None and action < 1000:
            self.send_error(action)
            return
        start = 0
        if "Range" in self.headers and server.tag and self.headers.get("If-Range") == server.tag:
            start = int(self.headers["Range"][len("bytes=") : -1])
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        self.wfile.write(body[:action])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloads, "DELAY", 0)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, file, least=1000):
    fetch(Shell("x"), server.url, file, least, "the files")


def test_a_file_is_fetched_once(server, tmp_path):
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.requests[0]["User-Agent"] == "fairseq-attn-recipe"
    get(server, tmp_path / "file")
    assert len(server.requests) == 1 and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interrupted_transfer_continues(server, tmp_path):
    server.script = [100000, 150000]
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [headers.get("Range") for headers in server.requests] == [None, "bytes=100000-", "bytes=250000-"]


@pytest.mark.parametrize("tag", [None, 'W/"1"'])
def test_without_a_version_of_the_file_the_transfer_begins_again(tag, server, tmp_path):
    server.script, server.tag = [100000], tag
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [headers.get("Range") for headers in server.requests] == [None, None]


def test_a_file_that_changes_meanwhile_is_fetched_from_its_beginning(server, tmp_path):
    server.script = [100000]
    headers = server.requests

    def changed(request, address, rest):
        if headers:
            server.tag, server.content = '"2"', CONTENT[::-1]
        return Handler(request, address, rest)

    server.RequestHandlerClass = changed
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.script = [503, 429]
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and len(server.requests) == 3


def test_what_is_not_there_is_asked_for_once(server, tmp_path):
    server.script = [404]
    with pytest.raises(OptionError, match=r"/file cannot be fetched \(Not Found\): try .* DATA=folder with the files"):
        get(server, tmp_path / "file")
    assert len(server.requests) == 1 and not list(tmp_path.iterdir())


def test_a_transfer_that_never_ends_is_given_up(server, tmp_path):
    server.script, server.tag = [2000] * 9, None
    with pytest.raises(OptionError, match=r"cannot be fetched \(2000 of 300000 bytes came\)"):
        get(server, tmp_path / "file")
    assert len(server.requests) == downloads.RETRIES + 1 and not list(tmp_path.iterdir())


def test_what_an_earlier_call_left_is_not_continued(server, tmp_path):
    (tmp_path / "file.partial").write_bytes(b"x" * 1000)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_short_file_is_refused(server, tmp_path):
    with pytest.raises(OptionError, match="gave 300000 bytes, expected at least 300001: truncated or moved"):
        get(server, tmp_path / "file", least=300001)
    assert not list(tmp_path.iterdir())


def test_no_server_and_no_address(tmp_path):
    for url in ("http://127.0.0.1:1/file", "nowhere", "file:///no/such/file"):
        with pytest.raises(OptionError, match="cannot be fetched"):
            fetch(Shell("x"), url, tmp_path / "file", 1, "the files")
    assert not list(tmp_path.iterdir())


def test_recipe_from_a_mirror(recipe, tmp_path):
    mirror, out = tmp_path / "mirror", tmp_path / "out"
    mirror.mkdir()
    multi30k(mirror)
    url = mirror.as_uri()
    line = complaint(recipe("multi30k", "prepare", check=False, OUT=out, CORPUS_URL=url, BPE="none"))
    assert "expected at least 300000: truncated or moved" in line
    assert not list((out / "raw").iterdir())
    line = complaint(recipe("multi30k", "prepare", check=False, OUT=out, CORPUS_URL=url + "/nowhere", BPE="none"))
    assert "cannot be fetched" in line


def test_archive_with_too_few_lines_is_refused(recipe, tmp_path):
    """An archive of the right size whose text is not the published corpus, here by its number of lines."""
    (tmp_path / "mirror").mkdir()
    english, foreign = sentences(800, 0)
    noise = random.Random(0)
    lines = [f"{a}\t{b}\t{noise.getrandbits(20000):x}" for a, b in zip(english, foreign)]
    with zipfile.ZipFile(tmp_path / "mirror" / "vie-eng.zip", "w") as archive:
        archive.writestr("vie.txt", "\n".join(lines) + "\n")
    url = (tmp_path / "mirror").as_uri()
    line = complaint(recipe("tatoeba", "prepare", check=False, PAIR="vie-eng", OUT=tmp_path / "out", CORPUS_URL=url))
    assert "800 pairs, the published file at least 7000" in line
    assert (tmp_path / "out" / "raw" / "vie.txt").is_file()


@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_members_of_an_archive(kind, tmp_path):
    data, path = random.Random(1).getrandbits(8 * 25000).to_bytes(25000, "little"), tmp_path / f"a.{kind}"
    if kind == "tgz":
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("dir/member")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("dir/member", data)
    extract_members(path, tmp_path, ["dir/member"])
    assert (tmp_path / "member").read_bytes() == data
    with pytest.raises(CorpusError, match="dir/other.*: not the expected archive"):
        extract_members(path, tmp_path, ["dir/other"])
    truncate(path)
    unpack(Shell("x"), path, ["dir/member"])  # it is there
    (tmp_path / "member").unlink()
    with pytest.raises(CorpusError, match="is truncated or not an archive .* remove it and fetch it again"):
        unpack(Shell("x"), path, ["dir/member"])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
