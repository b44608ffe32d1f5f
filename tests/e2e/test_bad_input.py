"""Bodies that are wrong in every way, to every route that takes one.

At stake: a 4xx in the dialect's own shape, at once, and nothing that stays behind. Field reports on
injection, HTTP and templates.
"""
import json
import os
import random
import time

import pytest

MESSAGE = {"role": "user", "content": "hi"}
ROUTES = {
    "/v1/chat/completions": {"messages": [MESSAGE], "max_tokens": 1},
    "/v1/completions": {"prompt": "hi", "max_tokens": 1},
    "/v1/responses": {"input": [MESSAGE], "max_output_tokens": 1, "store": False},
    "/v1/messages": {"messages": [MESSAGE], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": [MESSAGE]},
    "/tokenize": {"content": "hi"},
    "/detokenize": {"tokens": [1, 2]},
}
MODEL_SECONDS = 0.05


def text_field(route):
    return {"/v1/completions": "prompt", "/tokenize": "content", "/detokenize": "tokens",
            "/v1/responses": "input"}.get(route, "messages")


def body_with(route, text):
    """A body whose text is these bytes of JSON, quotes included."""
    plain = json.dumps({"model": "smollm2", **ROUTES[route]}).encode()
    if route == "/detokenize":
        return plain.replace(b"[1, 2]", text)
    return plain.replace(b'"hi"', text)


def wrong_bodies(route):
    field = text_field(route).encode()
    yield "deep arrays", b"[" * 100_000
    yield "deep in place", body_with(route, b"[" * 100_000 + b"]" * 100_000)
    yield "deep objects", b'{"a":' * 100_000
    yield "invalid UTF-8", body_with(route, b'"\xff\xfe\xc3\x28"')
    yield "overlong UTF-8", body_with(route, b'"\xc0\xaf"')
    yield "lone surrogate", body_with(route, b'"a\\ud800b"')
    yield "raw NUL", body_with(route, b'"a\0b"')
    yield "duplicate key", b'{"model":"smollm2","' + field + b'":1,"' + field + b'":2}'
    yield "number beyond range", body_with(route, b"1e999")
    yield "huge integer", body_with(route, b"9" * 400)
    yield "no JSON", b"hello"
    yield "empty", b""
    yield "cut", json.dumps({"model": "smollm2", **ROUTES[route]}).encode()[:-3]
    yield "two documents", b"{}{}"
    yield "array", b"[]"
    yield "null", b"null"
    yield "wrong type", body_with(route, b'{"a":[1,{"b":null}]}')
    if "max_tokens" in ROUTES[route]:
        base = {"model": "smollm2", **ROUTES[route]}
        for value in (0, -1, 1.5, "7", [1], 1e300):
            yield f"max_tokens {value}", json.dumps({**base, "max_tokens": value}).encode()
    if "messages" in ROUTES[route]:
        base = {"model": "smollm2", **ROUTES[route]}
        for messages in ([], [1], [{}], [{"role": "wizard", "content": "x"}], [{"role": "user"}],
                         [{"role": "tool", "tool_call_id": "a", "content": "x"}, 5],
                         [{"role": "user", "content": [{"type": "hologram"}]}]):
            yield f"messages {messages}", json.dumps({**base, "messages": messages}).encode()


def checked(route, name, status, data):
    assert 400 <= status < 500, (route, name, status, data[:200])
    reply = json.loads(data)
    error = reply["error"]
    assert error["message"] and error["type"], (route, name)
    if route.startswith("/v1/messages"):
        assert reply["type"] == "error" and "request_id" in reply
    else:
        assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("route", ROUTES)
def test_wrong_bodies_are_refused_at_once(server, route):
    for name, body in wrong_bodies(route):
        best = 10.0
        for _ in range(4):   # the best of some: the machine may be busy
            begin = time.perf_counter()
            status, _, data = server.post(route, body)
            best = min(best, time.perf_counter() - begin)
            checked(route, name, status, data)
            if best < MODEL_SECONDS:
                break
        assert best < MODEL_SECONDS, (route, name, best)


@pytest.mark.parametrize("route", [r for r in ROUTES if r not in ("/tokenize", "/detokenize")])
def test_ten_megabytes_are_refused_without_being_tokenized(server, route):
    body = body_with(route, b'"' + b"word " * 2_000_000 + b'"')
    best = 10.0
    for _ in range(3):
        begin = time.perf_counter()
        status, _, data = server.post(route, body)
        best = min(best, time.perf_counter() - begin)
        checked(route, "ten megabytes", status, data)
    print(f"{route}: {best * 1000:.0f} ms for 10 MB")
    assert best < 0.5, best


def memory_kb(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def damaged(rng, body):
    """A body after some blows: bytes changed, cut out, said again."""
    body = bytearray(body)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(body))
        blow = rng.randrange(3)
        if blow == 0:
            body[at] = rng.randrange(256)
        elif blow == 1:
            del body[at:at + rng.randint(1, 9)]
        else:
            body[at:at] = body[rng.randrange(len(body)):][:rng.randint(1, 30)]
        if not body:
            body = bytearray(b"{}")
    return bytes(body)


def test_damaged_bodies_leave_no_memory_behind(own_server):
    server = own_server("--max-context", 128)   # some are right, and lack their max_tokens
    rng = random.Random(11)
    rounds = 1500 if os.environ.get("LINESHAFT_FULL") else 250
    bases = {route: json.dumps({"model": "smollm2", "temperature": 0.5, "stream": False,
                                "tools": [], **body}).encode() for route, body in ROUTES.items()}

    def storm():
        for _ in range(rounds):
            for route, base in bases.items():
                status, _, data = server.post(route, damaged(rng, base))
                assert status == 200 or 400 <= status < 500, (route, status, data)
                json.loads(data)

    storm()
    before = memory_kb(server)
    storm()
    storm()
    grown = memory_kb(server) - before
    assert grown < 8 * 1024, f"{grown} kB more after {2 * rounds} rounds"
