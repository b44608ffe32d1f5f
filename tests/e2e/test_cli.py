"""The binary's forms that scripts rely on, on a real model. docs/cli.md describes them."""
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

PROMPTS = [[504, 3575, 282, 4649, 314], [19556, 905], [1, 4093, 198], [504, 3575, 282, 4649, 314]]


class Cli:
    def __init__(self, binary, model, folder):
        self.binary, self.model = binary, model
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_STATE_HOME": str(folder),
                    "XDG_CONFIG_HOME": str(folder)}

    def __call__(self, *args, stdin="", code=0):
        result = subprocess.run([self.binary, *args], input=stdin, env=self.env, text=True,
                                capture_output=True, timeout=120)
        assert result.returncode == code, (args, result.returncode, result.stderr)
        return result

    def json(self, *args, **more):
        return [json.loads(line) for line in self(*args, "--json", **more).stdout.splitlines()]


@pytest.fixture
def cli(lineshaft, smollm2, tmp_path):
    return Cli(lineshaft, smollm2, tmp_path)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(p) + "\n" for p in PROMPTS))
    return str(path)


def test_tokenize(cli):
    lines = [{"text": "Hello world"}, {"text": "<|im_end|>", "special": True},
             {"text": "<|im_end|>", "special": False}, {"text": ""}]
    out = cli.json("tokenize", "--model", cli.model,
                   stdin="".join(json.dumps(x) + "\n" for x in lines))
    assert out[0] == {"ids": [19556, 905]}
    assert out[1] == {"ids": [2]}
    assert 2 not in out[2]["ids"] and len(out[2]["ids"]) > 1
    assert out[3] == {"ids": []}
    back = cli.json("tokenize", cli.model, stdin=json.dumps(out[0]) + "\n")
    assert back == [{"text": "Hello world"}]


@pytest.mark.parametrize("line", ["{", "[]", '{"text": 3}', '{"text": "a", "special": 1}',
                                  '{"ids": [-1]}', '{"ids": [1e9]}'])
def test_tokenize_refuses(cli, line):
    result = cli("tokenize", cli.model, "--json", stdin="{\"text\": \"a\"}\n" + line + "\n", code=2)
    assert "line 2" in result.stderr


def test_generate_greedy(cli):
    out, = cli.json("generate", "--model", cli.model, "--prompt", "The capital of France is",
                    "--max-tokens", "8", "--temperature", "0")
    assert "Paris" in out["text"]
    assert len(out["ids"]) == len(out["logprobs"]) == out["usage"]["completion_tokens"] <= 8
    assert all(x <= 0 for x in out["logprobs"])
    assert out["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize("temperature", ["0", "1.0"])
def test_generate_is_the_same_alone_and_together(cli, token_file, temperature):
    args = ["generate", "--model", cli.model, "--tokens", token_file, "--max-tokens", "24",
            "--temperature", temperature, "--seed", "11", "--ignore-eos"]
    alone = cli.json(*args, "--threads", "1")
    together = cli.json(*args, "--threads", "2", "--parallel", "4")
    assert len(alone) == len(PROMPTS)
    for a, b in zip(alone, together):
        assert (a["ids"], a["logprobs"], a["text"]) == (b["ids"], b["logprobs"], b["text"])
        assert len(a["ids"]) == 24 and a["finish_reason"] == "length"
    assert alone[0]["ids"] == alone[3]["ids"]


def test_generate_stops_at_text(cli):
    args = ["generate", cli.model, "--prompt", "One, two, three,", "-n", "32"]
    whole, = cli.json(*args)
    stop = whole["text"][5:8]
    cut, = cli.json(*args, "--stop", stop)
    assert cut["text"] == whole["text"][:whole["text"].index(stop)]
    assert cut["finish_reason"] == "stop"


def test_score_agrees_with_generate(cli, tmp_path):
    answer, = cli.json("generate", cli.model, "--prompt", "The capital of France is", "-n", "8",
                       "--ignore-eos")
    prompt = cli.json("tokenize", cli.model, stdin='{"text": "The capital of France is"}\n')[0]["ids"]
    line = tmp_path / "line"
    line.write_text(json.dumps(prompt + answer["ids"]) + "\n")
    score, = cli.json("score", "--model", cli.model, "--tokens", str(line), "--top", "5")
    assert len(score["logprobs"]) == len(prompt) + 7
    assert score["logprobs"][-8:] == answer["logprobs"]
    logits = [logit for _, logit in score["last_top"]]
    assert len(logits) == 5 and logits == sorted(logits, reverse=True)


def test_inspect(cli):
    out, = cli.json("inspect", cli.model)
    assert out["metadata"]["general.architecture"] == "llama"
    assert out["memory"]["context_tokens"] == 8192
    assert len(out["tensors"]) == 272


def test_doctor(cli):
    result = subprocess.run([cli.binary, "doctor", cli.model, "--json"], env=cli.env, text=True,
                            capture_output=True, timeout=60)
    checks = {c["check"]: c for c in map(json.loads, result.stdout.splitlines())}
    assert {"cpu", "cores", "memory", "disk", "open_files", "model"} <= set(checks)
    assert checks["model"]["state"] == "ok"
    assert result.returncode == max({"ok": 0, "warn": 1, "fail": 2}[c["state"]]
                                    for c in checks.values())


def test_bench(cli):
    rows = cli.json("bench", "--model", cli.model, "--prompt-tokens", "32", "--gen-tokens", "8",
                    "--batch", "1,3", "-r", "1")
    assert [row["batch"] for row in rows] == [1, 3]
    for row in rows:
        for key in ("prompt_tokens_per_second", "gen_tokens_per_second"):
            rate = row[key]
            assert 0 < rate["min"] <= rate["median"] <= rate["max"]


def test_exit_codes(cli, tmp_path):
    cli("generate", "no-such-model", "--prompt", "x", code=4)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(open(cli.model, "rb").read(100_000))
    result = cli("inspect", str(broken), code=4)
    assert "broken.gguf" in result.stderr
    cli("generate", cli.model, code=2)
    cli("generate", cli.model, "--prompt", "x", "--max-context", "100k", code=2)
    cli("generate", cli.model, "--prompt", "x", "--temprature", "1", code=2)
    cli("generate", cli.model, "--tokens", str(tmp_path / "none"), code=2)
    result = cli("serve", cli.model, "--kv-memory", "900TiB", code=3)
    assert "--kv-memory" in result.stderr
    result = cli("serve", cli.model, "--host", "0.0.0.0", "--port", "0", code=2)
    assert "key" in result.stderr


def test_a_taken_port_is_refused_before_loading(cli):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = cli("serve", cli.model, "--port", str(taken.getsockname()[1]), code=5)
        assert "in use" in result.stderr and len(result.stderr.splitlines()) == 1
        # Were the model opened first, its absence would be told instead.
        cli("serve", "no-such-model", "--port", str(taken.getsockname()[1]), code=5)
    assert "nowhere.toml" in cli("serve", cli.model, "--keys", "nowhere.toml", code=2).stderr
    assert "nowhere.pem" in cli("serve", cli.model, "--port", "0", "--tls-cert", "nowhere.pem",
                                "--tls-key", "nowhere.pem", code=2).stderr


@pytest.mark.parametrize("args", [["inspect"], ["inspect", "--json"], ["generate", "-p", "Hi"],
                                  ["generate", "-p", "Hi", "--json"], ["doctor"]])
def test_a_full_disk_is_an_error_not_a_crash(cli, args):
    with open("/dev/full", "w") as full:
        result = subprocess.run([cli.binary, args[0], cli.model, *args[1:]], stdout=full,
                                stderr=subprocess.PIPE, env=cli.env, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr.endswith("standard output could not be written\n")


def test_a_full_log_ends_no_server(cli, tmp_path):
    ready = tmp_path / "ready"
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([cli.binary, "serve", cli.model, "--port", "0", "--ready-file",
                                    str(ready)], stderr=full, env=cli.env)
    deadline = time.monotonic() + 60
    while not ready.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    url = "http://" + ready.read_text().strip()
    assert urllib.request.urlopen(url + "/health", timeout=10).status == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


def test_a_command_ends_with_its_reader(cli):
    process = subprocess.Popen([cli.binary, "generate", cli.model, "-p", "Hi", "-n", "8000",
                                "--ignore-eos"], stdout=subprocess.PIPE, env=cli.env)
    assert process.stdout.read(4)
    process.stdout.close()
    assert process.wait(timeout=10) == -signal.SIGPIPE


def test_ctrl_c_ends_generate_with_what_there_is(cli):
    process = subprocess.Popen([cli.binary, "generate", cli.model, "-p", "Hi", "-n", "8000",
                                "--ignore-eos", "--json"], stdout=subprocess.PIPE, env=cli.env)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert not out or json.loads(out)["finish_reason"] == "cancelled"


@pytest.mark.parametrize("line,part", [("[]", "empty"), ("[99999]", "99999"), ('["a"]', "no id"),
                                       ("{}", "array"), ("[1,", "line 2")])
def test_a_broken_line_of_tokens_is_named(cli, tmp_path, line, part):
    path = tmp_path / "tokens"
    path.write_text("[1, 2]\n" + line + "\n")
    for command in ("generate", "score"):
        result = cli(command, cli.model, "--tokens", str(path), code=2)
        assert "line 2" in result.stderr and part in result.stderr
        assert result.stdout == ""


def test_context_is_lowered_to_what_the_pool_holds(cli):
    out, = cli.json("inspect", cli.model, "--kv-memory", "24MB")
    assert 0 < out["memory"]["context_tokens"] < 8192
    result = cli("inspect", cli.model, "--kv-memory", "24MB", "--max-context", "8192", code=3)
    assert "--max-context" in result.stderr or "--kv-memory" in result.stderr


def test_run_answers_piped_text(cli):
    result = cli("run", cli.model, "-n", "8", "--temperature", "0", stdin="What is 2 + 2?")
    assert result.stdout.strip()
    cli("run", cli.model, stdin="", code=2)


class Served:
    def __init__(self, cli, tmp_path, *args):
        ready = tmp_path / "ready"
        self.process = subprocess.Popen(
            [cli.binary, "serve", "--model", cli.model, "--port", "0", "--ready-file", str(ready),
             *args], env=cli.env, text=True, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.url = "http://" + ready.read_text().strip()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=60)


def test_serve_drains(cli, tmp_path):
    served = Served(cli, tmp_path)
    assert urllib.request.urlopen(served.url + "/health", timeout=10).status == 200
    streams = [served.post("/v1/completions", {
        "model": "smollm2", "prompt": f"Count to {i}:", "max_tokens": 48, "stream": True,
        "ignore_eos": True}) for i in range(4)]
    for stream in streams:
        assert stream.readline()
    served.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    with pytest.raises((urllib.error.URLError, ConnectionError)) as late:
        served.post("/v1/completions", {"model": "smollm2", "prompt": "x", "max_tokens": 1})
    if isinstance(late.value, urllib.error.HTTPError):
        assert late.value.code == 503 and late.value.headers["Retry-After"]
    for stream in streams:
        assert stream.read().decode().rstrip().endswith("data: [DONE]")
    assert served.process.wait(timeout=30) == 0
    talk = served.process.stderr.read()
    assert len(talk.split("stopping")[0].splitlines()) <= 12
    assert all(len(line) <= 160 for line in talk.splitlines())


def test_second_signal_stops_at_once(cli, tmp_path):
    served = Served(cli, tmp_path)
    stream = served.post("/v1/completions", {"model": "smollm2", "prompt": "Tell", "stream": True,
                                             "max_tokens": 4000, "ignore_eos": True})
    stream.readline()
    served.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert served.process.poll() is None
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=10) == 130


def metrics_of(url):
    page = urllib.request.urlopen(url + "/metrics", timeout=10).read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^(lineshaft_\S+) (\S+)$", page, re.M)}


def test_metrics_count_what_was_done(cli, tmp_path):
    served = Served(cli, tmp_path)
    reply = json.load(served.post("/v1/completions", {
        "model": "smollm2", "prompt": "Hello", "max_tokens": 5, "ignore_eos": True}))
    assert reply["usage"]["completion_tokens"] == 5
    value = metrics_of(served.url)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=30) == 0
    assert value["lineshaft_generated_tokens_total"] == 5
    assert value["lineshaft_time_to_first_token_seconds_count"] == 1
    assert value["lineshaft_request_seconds_count"] == 1
    assert value["lineshaft_running_requests"] == 0
    assert value['lineshaft_kv_blocks{state="held"}'] == 0


def test_clients_that_leave_free_everything(cli, tmp_path):
    served = Served(cli, tmp_path, "--max-seqs", "8", "--kv-memory", "64MB")
    streams = [served.post("/v1/completions", {
        "model": "smollm2", "prompt": f"Story {i % 5}: once upon a time", "stream": True,
        "max_tokens": 400 if i % 2 else 24, "ignore_eos": True, "n": 2}) for i in range(24)]
    for i, stream in enumerate(streams):
        if i % 2:
            stream.close()   # some while they run, some while they wait
    for i, stream in enumerate(streams):
        if i % 2 == 0:
            assert stream.read().decode().rstrip().endswith("data: [DONE]")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        values = metrics_of(served.url)
        left = [values["lineshaft_running_requests"], values["lineshaft_waiting_requests"],
                values['lineshaft_kv_blocks{state="held"}']]
        if left == [0, 0, 0]:
            break
        time.sleep(0.1)
    assert left == [0, 0, 0]
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=30) == 0


def test_chat_with_a_server_beside_it(cli):
    chat = Terminal(cli, "--with-server", "--port", "0", "--temperature", "0")
    talk = chat.read_prompt()
    url = re.search(r"server: (\S+)", talk)[1]
    assert urllib.request.urlopen(url + "/ready", timeout=10).status == 200
    command = re.search(r"^curl .*$", talk.replace("\r", ""), re.M)[0]
    reply = json.loads(subprocess.run(["bash", "-c", command + " --silent"], text=True,
                                      capture_output=True, timeout=60, check=True).stdout)
    assert reply["choices"][0]["message"]["content"]
    chat.send("/exit\n")
    assert chat.wait() == 0


class Terminal:
    """A chat in a terminal of its own."""

    def __init__(self, cli, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(cli.binary, [cli.binary, "run", cli.model, *args], {**cli.env, "TERM": "xterm"})
        self.seen = ""

    def read_prompt(self, seconds=60):
        """What was printed until the prompt stands there and nothing more comes.

        The line editor may draw a prompt more than once, so the first one is no sign."""
        deadline = time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.fd], [], [], 0.7)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(self.seen) from None
            elif re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.seen).endswith(">>> "):
                text, self.seen = self.seen, ""
                return text

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("the chat did not end: " + self.seen)


def test_chat_in_a_terminal(cli):
    chat = Terminal(cli, "--temperature", "0")
    chat.read_prompt()
    chat.send("Say hi.\n")
    assert "tokens/s" in chat.read_prompt()
    chat.send("/set max-tokens 4000\n")
    chat.read_prompt()
    chat.send('"""Write a very long story\nabout a ship."""\n')
    time.sleep(1.0)
    chat.send("\x03")                     # stops the answer, not the chat
    chat.read_prompt()
    chat.send("/rest\n")
    assert "did you mean /reset" in chat.read_prompt()
    chat.send("\x03")                     # at the prompt: a fresh line
    chat.read_prompt()
    chat.send("\x04")                     # leaves
    assert chat.wait() == 0
