"""lineshaft pull against a server that stalls, cuts and lies.

At stake: a file under its final name is whole and right, whatever the network does.
"""
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

DATA = random.Random(5).randbytes(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


class Behaviour:
    """What the server does; a test changes it before it pulls."""

    def __init__(self):
        self.cut_after = []          # bytes of each answer before the connection is closed
        self.stall_after = None      # bytes before the server falls silent (first answer only)
        self.honour_range = True
        self.etag = '"v1"'
        self.linked_etag = None
        self.length = None           # a lie about Content-Length
        self.codes = []              # error codes of the first answers
        self.location = None         # redirect
        self.slow = 0.0              # seconds between parts of 64 KiB
        self.ranges = []             # Range headers seen


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        b = self.server.behaviour
        self.close_connection = True
        if b.codes:
            return self.error(b.codes.pop(0))
        if b.location and not self.path.startswith("/target"):
            return self.redirect(b.location)
        if self.path.startswith("/missing"):
            return self.error(404)
        begin = self.begin_of_range(b)
        if begin is None:
            return None
        self.send_data(b, begin)
        return None

    def error(self, code):
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def redirect(self, location):
        self.send_response(302)
        self.send_header("Location", location)
        if self.server.behaviour.linked_etag:
            self.send_header("X-Linked-ETag", self.server.behaviour.linked_etag)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def begin_of_range(self, b):
        wanted = self.headers.get("Range")
        b.ranges.append(wanted)
        if not wanted or not b.honour_range or self.headers.get("If-Range") not in (None, b.etag):
            self.send_response(200)
            return 0
        begin = int(wanted.split("=")[1].rstrip("-"))
        total = b.length or len(DATA)
        if begin >= len(DATA):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{total - 1}/{total}")
        return begin

    def send_data(self, b, begin):
        if b.etag:
            self.send_header("ETag", b.etag)
        if b.linked_etag:
            self.send_header("X-Linked-ETag", b.linked_etag)
        self.send_header("Content-Length", str(b.length or len(DATA) - begin))
        self.end_headers()
        end = begin + b.cut_after.pop(0) if b.cut_after else len(DATA)
        stall, b.stall_after = b.stall_after, None
        for at in range(begin, min(end, len(DATA)), 65536):
            if stall is not None and at - begin >= stall:
                self.server.released.wait(30)
                return
            try:
                self.wfile.write(DATA[at:min(at + 65536, end)])
            except OSError:
                return
            time.sleep(b.slow)


@pytest.fixture
def server():
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.behaviour = Behaviour()
    http.released = threading.Event()
    http.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield http
    http.released.set()
    http.shutdown()
    http.server_close()


class Puller:
    def __init__(self, binary, folder, server):
        self.binary, self.server = binary, server
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder), "HF_ENDPOINT": server.url,
                    "no_proxy": "*"}
        self.models = folder / "lineshaft/models"
        self.file = self.models / "m.gguf"

    def command(self, *args, source=None):
        return [self.binary, "pull", source or self.server.url + "/m.gguf", *args]

    def __call__(self, *args, source=None):
        return subprocess.run(self.command(*args, source=source), env=self.env, text=True,
                              capture_output=True, timeout=60)

    def assert_whole(self, result):
        assert result.returncode == 0, result.stderr
        assert self.file.read_bytes() == DATA
        assert sorted(p.name for p in self.models.iterdir()) == ["m.gguf"]

    def assert_nothing(self, result, code, text):
        assert result.returncode == code, result.stderr
        assert text in result.stderr
        assert not self.file.exists()


@pytest.fixture
def pull(lineshaft, tmp_path, server):
    return Puller(lineshaft, tmp_path, server)


def test_plain(pull):
    result = pull()
    pull.assert_whole(result)
    assert result.stdout.strip() == str(pull.file)
    assert "100%" in result.stderr


def test_hub_address(pull):
    pull.assert_whole(pull(source="hf://org/repo/m.gguf"))


def test_hub_digest_is_checked(pull, server):
    server.behaviour.linked_etag = f'"{SHA256}"'
    server.behaviour.location = "/target/m.gguf"
    result = pull("--json", source="hf://org/repo/m.gguf")
    pull.assert_whole(result)
    done = json.loads(result.stdout.splitlines()[-1])
    assert done["event"] == "done" and done["digest_checked"] and done["sha256"] == SHA256


def test_json_events(pull):
    result = pull("--json")
    pull.assert_whole(result)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0]["event"] == "start" and events[0]["total_bytes"] == len(DATA)
    assert events[-1] == {"event": "done", "path": str(pull.file), "bytes": len(DATA),
                          "sha256": SHA256, "digest_checked": False, "already_there": False}


def test_a_cut_is_resumed(pull, server):
    server.behaviour.cut_after = [1_000_000]
    pull.assert_whole(pull("--sha256", SHA256))
    assert server.behaviour.ranges[0] is None
    assert server.behaviour.ranges[1] == "bytes=1000000-"


def test_a_killed_pull_is_resumed(pull, server):
    server.behaviour.slow = 0.05
    process = subprocess.Popen(pull.command(), env=pull.env, stderr=subprocess.DEVNULL)
    part = pull.models / "m.gguf.part"
    while not part.exists() or part.stat().st_size < 500_000:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert not pull.file.exists()
    kept = part.stat().st_size
    server.behaviour.slow = 0.0
    result = pull("--sha256", SHA256)
    pull.assert_whole(result)
    assert server.behaviour.ranges[-1] == f"bytes={kept}-"
    assert "resuming" in result.stderr


def test_a_changed_file_is_not_mixed(pull, server):
    server.behaviour.cut_after = [1_000_000]
    pull("--attempts", "1")
    server.behaviour.etag = '"v2"'
    pull.assert_whole(pull("--sha256", SHA256))


def test_an_ignored_range_starts_anew(pull, server):
    server.behaviour.cut_after = [1_000_000]
    server.behaviour.honour_range = False
    pull.assert_whole(pull("--sha256", SHA256))


def test_without_validator_nothing_is_resumed(pull, server):
    server.behaviour.etag = None
    server.behaviour.cut_after = [1_000_000]
    pull.assert_whole(pull("--sha256", SHA256))
    assert server.behaviour.ranges == [None, None]


def test_a_whole_part_needs_no_bytes(pull, server):
    server.behaviour.cut_after = [1_000_000]
    pull("--attempts", "1")
    (pull.models / "m.gguf.part").write_bytes(DATA)
    pull.assert_whole(pull("--sha256", SHA256))


def test_a_stall_ends_the_attempt(pull, server):
    server.behaviour.stall_after = 500_000
    begin = time.monotonic()
    pull.assert_whole(pull("--stall-seconds", "1", "--sha256", SHA256))
    assert time.monotonic() - begin < 20


def test_a_wrong_digest_leaves_nothing(pull):
    result = pull("--sha256", "0" * 64)
    pull.assert_nothing(result, 5, "SHA-256")
    assert list(pull.models.iterdir()) == []


def test_a_lie_about_the_digest(pull, server):
    server.behaviour.linked_etag = '"' + "1" * 64 + '"'
    pull.assert_nothing(pull(), 5, "SHA-256")


def test_a_longer_length_than_the_data(pull, server):
    server.behaviour.length = len(DATA) + 1000
    pull.assert_nothing(pull("--attempts", "2"), 5, "lineshaft:")


def test_a_missing_file_is_not_retried(pull, server):
    result = pull(source=server.url + "/missing/m.gguf")
    pull.assert_nothing(result, 5, "404")
    assert "attempt" not in result.stderr


def test_a_server_error_is_retried(pull, server):
    server.behaviour.codes = [503]
    pull.assert_whole(pull())


def test_too_many_redirects(pull, server):
    server.behaviour.location = "/again/m.gguf"
    pull.assert_nothing(pull(), 2, "redirect")


def test_only_https_from_elsewhere(pull):
    pull.assert_nothing(pull(source="http://example.invalid/m.gguf"), 2, "only https")
    pull.assert_nothing(pull(source="10.0.0.1:8443/x"), 2, "is no source")
    pull.assert_nothing(pull(source="hf://org/m.gguf"), 2, "hf://org/repo/file.gguf")
    pull.assert_nothing(pull(source="hf://org/../m.gguf"), 2, "is no name")


def test_no_connection(pull):
    pull.assert_nothing(pull("--attempts", "1", source="http://127.0.0.1:1/m.gguf"), 5, "connect")


def test_no_room_on_the_disk(pull, server):
    server.behaviour.length = 1 << 60
    pull.assert_nothing(pull("--attempts", "1"), 1, "bytes free")


def test_an_existing_file_is_kept(pull, server):
    pull.assert_whole(pull())
    asked = len(server.behaviour.ranges)
    result = pull()
    assert result.returncode == 0 and "already there" in result.stderr
    assert len(server.behaviour.ranges) == asked
    assert pull("--sha256", "0" * 64).returncode == 5
    pull.assert_whole(pull("--force"))


def test_two_pulls_of_one_file(pull, server):
    server.behaviour.slow = 0.05
    first = subprocess.Popen(pull.command(), env=pull.env, stderr=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL)
    while not (pull.models / "m.gguf.part").exists():
        time.sleep(0.02)
    second = pull()
    assert second.returncode == 1 and "another pull" in second.stderr
    assert first.wait(timeout=30) == 0
    assert pull.file.read_bytes() == DATA


def test_wrong_use(pull):
    assert pull("--sha256", "xyz").returncode == 2
    assert pull("--frce").returncode == 2
