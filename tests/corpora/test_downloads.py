"""Downloads and archives: nothing half-written or changed is taken for whole."""

import gzip
import hashlib
import http.server
import io
import random
import tarfile
import threading
import zipfile
from argparse import Namespace

import pytest
from miniature_corpora import tatoeba, truncate

from fairseq_attn_plugin.corpora.catalogue import CORPORA
from fairseq_attn_plugin.corpora.downloads import TRIES, Download, checksum, fetch, unpack
from fairseq_attn_plugin.errors import OptionError

CONTENT = random.Random(0).getrandbits(8 * 300000).to_bytes(300000, "little")
KNOWN = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``server.files``; ``script`` has what happens to each request: a status, or the bytes before the end."""

    def do_GET(self):
        self.server.requests.append(self.path)
        action = self.server.script.pop(0) if self.server.script else None
        body = self.server.files.get(self.path.lstrip("/"))
        if body is None or (action is not None and action < 1000):
            self.send_error(action or 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:action])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between two tries
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.script, server.requests, server.files = [], [], {"file": CONTENT}
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, folder, known=KNOWN, **options):
    return fetch(Download(f"{server.url}/file", known, **options), folder, "the files")


@pytest.mark.parametrize("known", [KNOWN, "md5:" + hashlib.md5(CONTENT).hexdigest(), ""])
def test_a_file_is_fetched_once(known, server, tmp_path):
    for _ in range(2):
        path = get(server, tmp_path, known)
        assert path.read_bytes() == CONTENT and checksum(path) == KNOWN
    assert len(server.requests) == 1 and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_busy_server_and_a_broken_transfer_are_tried_again(server, tmp_path):
    server.script = [503, 100000]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 3 and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_file_is_fetched_again(server, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT[:-1])
    assert get(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("known", "least", "said"),
    [
        (None, 1, r"cannot be fetched \(404 .*"),
        ("0" * 64, 1, f"gives a file with another checksum than {'0' * 64}: truncated, or changed on the server"),
        ("", 300001, "gives 300000 bytes, at least 300001 are expected: truncated or moved"),
    ],
)
def test_what_is_not_there_or_another_file_is_one_line(known, least, said, server, tmp_path):
    if known is None:
        server.files.clear()
    with pytest.raises(OptionError, match=f"/file: {said}; try again, or fetch it by hand and give --data FOLDER with"):
        get(server, tmp_path, known or "", least=least)
    assert not list(tmp_path.iterdir()) and (known is not None or len(server.requests) == TRIES + 1)


def test_no_server(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(OptionError, match="http://127.0.0.1:1/file: cannot be fetched"):
        fetch(Download("http://127.0.0.1:1/file"), tmp_path, "the files")


def test_every_download_has_a_checksum_or_a_least_size():
    args = Namespace(pair="spa-eng", setimes=True)
    downloads = [download for corpus in CORPORA.values() for download in corpus.files(args)]
    assert all(len(download.known) == 64 or download.least > 1000 for download in downloads) and len(downloads) == 23
    assert all(download.url.startswith("http") for download in downloads)


def test_preparations_share_their_downloads(server, prepare, corpus_folder, tmp_path, monkeypatch):
    tatoeba(corpus_folder)
    entry = {**CORPORA["tatoeba"].downloads[0], "file": server.url + "/{pair}.zip"}
    monkeypatch.setitem(CORPORA, "tatoeba", CORPORA["tatoeba"]._replace(downloads=[entry]))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("deu.txt", gzip.decompress((corpus_folder / "spa.txt.gz").read_bytes()))
    server.files = {"deu-eng.zip": packed.getvalue()}
    options = {"pair": "deu-eng", "downloads": tmp_path / "shared"}
    assert "fetching" in prepare("tatoeba", **options).stdout
    other = prepare("tatoeba", out=tmp_path / "other", **options)
    assert "fetching" not in other.stdout and (other.out / "text" / "train.de").is_file()
    assert not (tmp_path / "downloads").exists()


@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_members_of_an_archive(kind, tmp_path):
    data, path = random.Random(1).getrandbits(8 * 25000).to_bytes(25000, "little"), tmp_path / f"a.{kind}"
    if kind == "tgz":
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("../dir/member")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("../dir/member", data)
    unpack(path, tmp_path, ["../dir/member"])  # by its base name: nothing is written outside the folder
    assert (tmp_path / "member").read_bytes() == data and not (tmp_path.parent / "dir").exists()
    with pytest.raises(OptionError, match="dir/third.*: not the expected archive"):
        unpack(path, tmp_path, ["dir/third"])
    truncate(path)
    unpack(path, tmp_path, ["../dir/member"])  # it is there
    (tmp_path / "member").unlink()
    with pytest.raises(OptionError, match="is truncated or damaged .* remove it and fetch it again"):
        unpack(path, tmp_path, ["../dir/member"])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
