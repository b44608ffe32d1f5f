"""Roles, calls and results in an order that no dialogue has, and 10 MB strings, in every dialect
of a model with tools: 400 in the dialect's shape, and no memory kept."""
import pytest
from test_bad_input import checked, memory_kb

USER = {"role": "user", "content": "hi"}
TOOL = {"role": "tool", "tool_call_id": "z", "content": "r"}
RESULT = {"type": "tool_result", "tool_use_id": "z", "content": "r"}
USE = {"type": "tool_use", "id": "z", "name": "f", "input": {}}
OUTPUT = {"type": "function_call_output", "call_id": "z", "output": "r"}
WRONG = [
    ("/v1/chat/completions", {"messages": [TOOL]}),
    ("/v1/chat/completions", {"messages": [USER, TOOL]}),
    ("/v1/chat/completions", {"messages": [TOOL, USER]}),
    ("/v1/messages", {"messages": [{"role": "user", "content": [RESULT]}]}),
    ("/v1/messages", {"messages": [{"role": "user", "content": [USE]}]}),
    ("/v1/messages", {"messages": [USER, {"role": "assistant", "content": [RESULT]}]}),
    ("/v1/messages", {"messages": [USER, {"role": "tool", "content": "r"}]}),
    ("/v1/responses", {"input": [OUTPUT]}),
    ("/v1/responses", {"input": [USER, OUTPUT]}),
]


@pytest.fixture(scope="module")
def server(scripted):
    return scripted([{"choices": [["</think>Hello."]]}])


@pytest.mark.parametrize("route,body", WRONG)
def test_a_wrong_order_is_refused(server, route, body):
    status, _, data = server.post(route, {"model": "scripted", **body})
    assert status == 400
    checked(route, "wrong order", status, data)


def test_long_strings_leave_no_memory_behind(server):
    text = "word " * 2_000_000
    bodies = {"/v1/chat/completions": {"messages": [{"role": "user", "content": text}]},
              "/v1/messages": {"messages": [{"role": "user", "content": text}], "max_tokens": 1},
              "/v1/responses": {"input": text}}

    def storm():
        for _ in range(3):
            for route, body in bodies.items():
                status, _, data = server.post(route, {"model": "scripted", **body})
                checked(route, "10 MB", status, data)

    storm()
    before = memory_kb(server)
    storm()
    assert memory_kb(server) - before < 32 * 1024
