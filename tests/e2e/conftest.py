"""Real processes for the end-to-end tests: the binary, the models, a server on loopback."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

BINARY = os.environ.get("LINESHAFT_BIN", "build/release/lineshaft")
START_SECONDS = 30


def needs(variable):
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set (./test sets it)")
    return path


def run(*args, stdin=None, timeout=120, check=True):
    """Runs the binary; stdout as text. Fails the test on an exit code other than 0."""
    done = subprocess.run([BINARY, *map(str, args)], input=stdin, capture_output=True, text=True,
                          timeout=timeout)
    if check:
        assert done.returncode == 0, f"{args}: exit {done.returncode}\n{done.stderr}"
    return done


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line]


class Server:
    """`lineshaft serve` in a process of its own; `model` may be None when the flags say the rest."""

    def __init__(self, model, *flags):
        self.folder = tempfile.TemporaryDirectory()
        ready = os.path.join(self.folder.name, "ready")
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        chosen = [] if model is None else ["--model", model]
        command = [BINARY, "serve", *chosen, "--host", "127.0.0.1", "--port", "0",
                   "--ready-file", ready, *map(str, flags)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + START_SECONDS
        while not (os.path.exists(ready) and open(ready).read().strip()):
            assert self.process.poll() is None, f"the server ended:\n{self.output()}"
            assert time.monotonic() < deadline, f"the server is not ready:\n{self.output()}"
            time.sleep(0.02)
        address = open(ready).read().strip()
        self.url = address if address.startswith("http") else f"http://{address}"

    def output(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return reply.read().decode()

    def metric(self, name):
        """The value of a sample, by its whole name with labels."""
        for line in self.get("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def eventually(self, condition, seconds=10):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            time.sleep(0.05)

    def client(self, **kw):
        import openai
        return openai.OpenAI(base_url=self.url + "/v1", api_key=kw.pop("api_key", "none"),
                             max_retries=0, timeout=120, **kw)

    def anthropic(self, **kw):
        import anthropic
        return anthropic.Anthropic(base_url=self.url, api_key=kw.pop("api_key", "none"),
                                   max_retries=0, timeout=120, **kw)

    def post(self, path, body, **headers):
        """Status, headers and bytes of the reply to a body: bytes, or what becomes JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, data, **headers)

    def ask(self, method, path, data=None, **headers):
        """Status, headers and bytes of the reply."""
        request = urllib.request.Request(self.url + path, data,
                                         {"Content-Type": "application/json", **headers},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def events(self, path, body):
        """The events of a stream: (name or None, data as JSON); [DONE] and comments left out."""
        status, _, data = self.post(path, {**body, "stream": True})
        assert status == 200, data
        out = []
        for event in data.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in event.splitlines()
                          if line and not line.startswith(":"))
            if "data" in fields and fields["data"] != "[DONE]":
                out.append((fields.get("event"), json.loads(fields["data"])))
        return out

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()
        return self.process.returncode


@pytest.fixture(scope="session")
def lineshaft():
    """Path of the binary."""
    if not os.path.isfile(BINARY):
        pytest.fail(f"{BINARY} is not built")
    return os.path.abspath(BINARY)


@pytest.fixture(scope="session")
def smollm2():
    return needs("LINESHAFT_SMOLLM2")


@pytest.fixture(scope="session")
def gemma3():
    return needs("LINESHAFT_GEMMA3")


@pytest.fixture(scope="session")
def server(smollm2):
    s = Server(smollm2)
    yield s
    assert s.stop() == 0, "the server did not end cleanly"


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """Makes servers whose answers a script says: a list of answers, and flags."""
    servers = []

    def make(answers, *flags, encoding="deepseek_v4"):
        tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), f"{encoding}.json")
        script = tmp_path_factory.mktemp("script") / "script.json"
        script.write_text(json.dumps({"answers": answers}))
        servers.append(Server(None, "--tokenizer", tokenizer, "--encoding", encoding,
                              "--test-script", script, *flags))
        return servers[-1]

    yield make
    for s in servers:
        assert s.stop() == 0, "the server did not end cleanly"


@pytest.fixture
def own_server(smollm2):
    """Makes servers with flags of the test's own; all are ended after it."""
    servers = []

    def make(*flags):
        servers.append(Server(smollm2, *flags))
        return servers[-1]

    yield make
    for s in servers:
        s.stop()
