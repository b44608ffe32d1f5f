"""Faults that users of other engines reported, tried on the real binary with a real model.

Each test names what it guards against by the number of the public report ("P001"), or says in its
name what a user may expect. Faults that a scripted model shows better are tested in C++.
"""
import concurrent.futures
import http.client
import json
import random
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import openai
import pytest

QUESTION = [{"role": "user", "content": "Name three colours of the rainbow."}]
EMOJI = "🦊🐼🦁👩‍👩‍👧🦊🐼🦁👩‍👩‍👧T́é漢字🦊🐼"


def ask(server, prompt, **kw):
    kw.setdefault("max_tokens", 32)
    return server.client().completions.create(model="smollm2", prompt=prompt, **kw)


def streamed(server, prompt, **kw):
    """Deltas of each choice, in order."""
    kw.setdefault("max_tokens", 32)
    deltas = {}
    for chunk in server.client().completions.create(model="smollm2", prompt=prompt, stream=True,
                                                    **kw):
        for choice in chunk.choices:
            deltas.setdefault(choice.index, []).append(choice.text)
    return deltas


def post(server, path, body, headers=None, timeout=60):
    """Status, headers and JSON body of a raw POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data,
                                     {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def kv_bytes(run_json, model, tokens):
    """Bytes of a KV pool for so many tokens, from what inspect says of a block."""
    return run_json("inspect", model)["memory"]["kv_block_bytes"] * tokens // 128


@pytest.fixture
def pool_bytes(smollm2):
    from conftest import json_lines, run
    return lambda tokens: kv_bytes(lambda *a: json_lines(run(*a, "--json").stdout)[0], smollm2,
                                   tokens)


# Unicode

@pytest.mark.parametrize("seed", range(4))
def test_p001_p002_a_stream_of_torn_characters_equals_the_whole_answer(server, seed):
    kw = dict(temperature=2.0, seed=seed, n=2, logprobs=2, extra_body={"ignore_eos": True},
              max_tokens=64)
    whole = ask(server, EMOJI, **kw)
    deltas = streamed(server, EMOJI, **kw)
    for choice in whole.choices:
        assert "".join(deltas[choice.index]) == choice.text
        choice.text.encode()   # no half of a surrogate pair


def test_p069_wild_text_never_breaks_a_reply(server):
    for seed in range(3):
        reply = ask(server, "\u0000\u200d\ufeff☃", temperature=2.0, seed=seed, max_tokens=300,
                    extra_body={"ignore_eos": True})
        assert reply.usage.completion_tokens == 300


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("body", [
    b'{"model":"smollm2","messages":[{"role":"user","content":"\xc4\xe3"}]}',
    b'{"model":"smollm2","prompt":"\xff\xfe","max_tokens":1}',
    b'{"model":"\xff"}', b"\xff\xfe", b"", b"{", b"null", b"[]", b'{"a":1}{"b":2}',
])
def test_p071_a_body_that_is_no_utf8_or_no_json_is_a_400(server, path, body):
    status, _, reply = post(server, path, body)
    assert status == 400
    assert reply["error"]["message"] and reply["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", b'{"model":"smollm2","max_tokens":1,"messages":'
                             b'[{"role":"user","content":"\\ud83d"}]}'),
    ("/v1/completions", b'{"model":"smollm2","max_tokens":1,"prompt":"a\\ud83d"}'),
])
def test_p070_a_lone_surrogate_is_never_a_500(server, path, body):
    assert post(server, path, body)[0] in (200, 400)


# Stop strings

def test_p009_no_part_of_a_stop_string_is_ever_sent(server):
    rng = random.Random(3)
    kw = dict(temperature=0, max_tokens=48, extra_body={"ignore_eos": True})
    whole = ask(server, "One, two, three, four,", **kw).choices[0].text
    for _ in range(6):
        begin = rng.randrange(2, len(whole) - 12)
        stop = whole[begin:begin + rng.randrange(1, 12)]
        expected = whole[:whole.index(stop)]
        text = "".join(streamed(server, "One, two, three, four,", stop=[stop], **kw)[0])
        assert text == expected
    unmatched = streamed(server, "One, two, three, four,", stop=["zzzz"], **kw)[0]
    assert "".join(unmatched) == whole
    assert len([d for d in unmatched if d]) > 20, "text waits for a stop string that is not there"


# Log-probabilities

def test_p082_p083_alternatives_are_told_apart_by_their_bytes(server):
    for seed in range(3):
        reply = server.client().chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "Say “🦊漢字” often."}],
            temperature=1.6, seed=seed, logprobs=True, top_logprobs=5, max_tokens=40)
        choice = reply.choices[0]
        assert len(choice.logprobs.content) == reply.usage.completion_tokens
        for entry in choice.logprobs.content:
            assert entry.token
            assert len(entry.top_logprobs) == 5
            values = [t.logprob for t in entry.top_logprobs]
            assert values == sorted(values, reverse=True)
            assert len({t.token for t in entry.top_logprobs}) == 5
        said = b"".join(bytes(e.bytes or []) for e in choice.logprobs.content)
        shown = said.decode(errors="replace")
        assert shown.startswith(choice.message.content)


# Context limits

def test_p086_prompts_at_the_limit_and_one_beyond(own_server):
    server = own_server("--max-context", 256, "--max-seqs", 4)
    assert ask(server, [1] * 254, max_tokens=2).usage.completion_tokens <= 2
    last = ask(server, [1] * 255, max_tokens=1)
    assert last.usage.prompt_tokens == 255 and last.usage.completion_tokens == 1
    for count in (256, 257, 5000):
        with pytest.raises(openai.BadRequestError) as error:
            ask(server, [1] * count, max_tokens=1)
        assert error.value.code == "context_length_exceeded"
        assert error.value.body["param"] == "prompt"
        assert str(count) in str(error.value) and "256" in str(error.value)


def test_p126_the_context_is_not_divided_by_the_sequences(own_server, pool_bytes):
    server = own_server("--max-context", 2048, "--max-seqs", 4, "--kv-memory", pool_bytes(2048))
    assert ask(server, [1] * 2000, max_tokens=8).usage.prompt_tokens == 2000


def test_p085_a_long_chat_never_loses_its_front_in_silence(own_server):
    server = own_server("--max-context", 256)
    messages = [{"role": "system", "content": "The secret word is plum."},
                {"role": "user", "content": "blah " * 600}]
    with pytest.raises(openai.BadRequestError) as error:
        server.client().chat.completions.create(model="smollm2", messages=messages)
    assert error.value.code == "context_length_exceeded"
    assert error.value.body["param"] == "messages"


@pytest.mark.parametrize("text", ["x" * 16_000_000, "word " * 4_000_000])
def test_a_huge_prompt_is_refused_at_once(server, text):
    begin = time.monotonic()
    status, _, reply = post(server, "/v1/completions", {"model": "smollm2", "prompt": text})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded"
    assert time.monotonic() - begin < 5   # a second on a quiet machine


def test_p087_an_unknown_field_is_told(server):
    status, _, reply = post(server, "/v1/completions", {
        "model": "smollm2", "prompt": "x", "max_tokens": 1, "num_ctx": 4096, "user": "me"})
    assert status == 200
    assert any("num_ctx" in w for w in reply["warnings"])


# Memory limits

def test_p125_streams_that_outgrow_the_pool_all_end_whole(own_server, pool_bytes):
    server = own_server("--max-context", 1024, "--kv-memory", pool_bytes(1024))
    kw = dict(temperature=0, max_tokens=400, extra_body={"ignore_eos": True})
    alone = "".join(streamed(server, "A story:", **kw)[0])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        crowd = list(pool.map(lambda _: "".join(streamed(server, "A story:", **kw)[0]), range(4)))
    assert crowd == [alone] * 4
    server.eventually(lambda: server.metric('lineshaft_kv_blocks{state="held"}') == 0)


def test_a_full_queue_is_a_429_that_says_when_to_come_back(own_server):
    server = own_server("--max-seqs", 1, "--queue-max", 1)
    body = {"model": "smollm2", "prompt": "Tell me", "max_tokens": 600, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: post(server, "/v1/completions", body), range(6)))
    refused = [(headers, reply) for status, headers, reply in replies if status == 429]
    assert refused and all(status in (200, 429) for status, _, _ in replies)
    for headers, reply in refused:
        assert int(headers["Retry-After"]) >= 1
        assert "--queue-max" in reply["error"]["message"]


# Cancel

def test_p040_a_client_that_leaves_in_a_long_prompt_ends_its_prefill(own_server):
    server = own_server()
    address = urllib.parse.urlparse(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("POST", "/v1/completions", json.dumps(
        {"model": "smollm2", "prompt": list(range(1000, 9000)), "max_tokens": 100}),
        {"Content-Type": "application/json"})
    server.eventually(lambda: server.metric("lineshaft_running_requests") == 1)
    connection.sock.close()
    connection.close()
    begin = time.monotonic()
    server.eventually(lambda: server.metric("lineshaft_running_requests") == 0)
    assert time.monotonic() - begin < 3
    server.eventually(lambda: server.metric('lineshaft_kv_blocks{state="held"}') == 0)
    assert server.metric("lineshaft_generated_tokens_total") == 0


# Determinism, seeds, n > 1

def test_p107_p108_p109_answers_do_not_depend_on_load_limits_or_warmth(own_server):
    kw = dict(temperature=1.0, seed=7, max_tokens=40)
    answers = []
    for flags in (["--max-seqs", 1], ["--max-seqs", 8, "--step-tokens-max", 16],
                  ["--max-seqs", 32, "--no-plan-ahead", "--threads", 1]):
        server = own_server(*flags)
        for _ in range(3):
            answers.append(ask(server, "Once upon a time", **kw).choices[0].text)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers += pool.map(
                lambda _: ask(server, "Once upon a time", **kw).choices[0].text, range(8))
        assert server.stop() == 0
    assert set(answers) == {answers[0]}


def test_p136_n_choices_are_n_choices(server):
    for n in (1, 2, 7, 16):
        reply = ask(server, "Hi", n=n, temperature=1.0, max_tokens=4)
        assert sorted(c.index for c in reply.choices) == list(range(n))
        deltas = streamed(server, "Hi", n=n, temperature=1.0, max_tokens=4)
        assert sorted(deltas) == list(range(n))


# Security

def keyed(server, key):
    return server.client(api_key=key)


def test_p035_p114_keys_guard_every_route_and_part_the_caches(own_server, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[[key]]\ntoken = "key-a"\ntenant = "a"\n'
                    '[[key]]\ntoken = "key-b"\ntenant = "b"\nconcurrent_requests = 1\n')
    server = own_server("--keys", keys)
    for path, code in [("/health", 200), ("/ready", 200), ("/metrics", 401), ("/v1/models", 401),
                       ("/version", 401), ("/nowhere", 401)]:
        try:
            with urllib.request.urlopen(server.url + path, timeout=10) as reply:
                status = reply.status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == code, path
    for path in ("/v1/completions", "/v1/chat/completions"):
        status, _, reply = post(server, path, {}, {"Authorization": "Bearer nobody"})
        assert status == 401 and "nobody" not in json.dumps(reply)
    def cached(key):
        reply = keyed(server, key).completions.create(
            model="smollm2", prompt="The river ran past the mill. " * 60, max_tokens=1)
        return reply.usage.prompt_tokens_details.cached_tokens
    assert cached("key-a") == 0
    assert cached("key-b") == 0
    assert cached("key-a") >= 128
    assert "key-a" not in server.output()


def test_p113_pages_of_other_sites_get_nothing(server):
    address = urllib.parse.urlparse(server.url)
    for method in ("POST", "OPTIONS"):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
        connection.request(method, "/v1/completions", "{}", {
            "Origin": "https://evil.example", "Content-Type": "application/json",
            "Access-Control-Request-Method": "POST"})
        reply = connection.getresponse()
        assert reply.getheader("Access-Control-Allow-Origin") is None
        connection.close()
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request("GET", "/v1/models", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 403
    connection.close()


def test_p077_byte_by_byte_senders_disturb_nobody(server):
    address = urllib.parse.urlparse(server.url)
    slow = [socket.create_connection((address.hostname, address.port)) for _ in range(40)]
    stop = threading.Event()

    def drip():
        while not stop.wait(0.2):
            for s in slow:
                s.send(b"P")
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        assert ask(server, "Hi", max_tokens=4).usage.completion_tokens <= 4
    finally:
        stop.set()
        thread.join()
        for s in slow:
            s.close()


# Names and facts

def test_a_model_answers_to_its_names(own_server):
    server = own_server("--alias", "my-model")
    ids = [m["id"] for m in json.loads(server.get("/v1/models"))["data"]]
    assert ids[0] == "my-model"
    assert {"smollm2", "SmolLM2-135M-Instruct.Q4_1"} <= set(ids)
    for name in ids:
        reply = server.client().completions.create(model=name, prompt="Hi", max_tokens=1)
        assert reply.model == name
        assert server.client().models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError) as error:
        server.client().completions.create(model="gpt-9", prompt="Hi")
    assert error.value.body["param"] == "model" and "my-model" in str(error.value)


def test_metrics_have_their_names(server):
    ask(server, "Hi", max_tokens=2)
    page = server.get("/metrics")
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds",
                 "queue_time_seconds", "request_seconds", "prompt_tokens_total",
                 "cached_tokens_total", "generated_tokens_total", "running_requests",
                 "waiting_requests", "kv_blocks", "step_seconds"):
        assert f"# TYPE lineshaft_{name} " in page, name
