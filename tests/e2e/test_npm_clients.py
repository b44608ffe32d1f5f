"""OpenAI's and Anthropic's npm clients against the running server: whole, streamed, with tools."""
import json
import os
import subprocess

import pytest
from test_dialects import call, calls

FOLDER = os.environ.get("LINESHAFT_NPM_CLIENTS")
PROGRAM = "tests/e2e/clients/clients.mjs"
ANSWERS = [
    {"choices": [["Need it.</think>One moment." + calls(call("weather", city='Ac"cra'))]]},
    {"when": "<tool_result>", "choices": [["Got it.</think>It is 30 degrees."]]},
]


@pytest.fixture(scope="module")
def seen(scripted):
    if not FOLDER:
        pytest.skip("LINESHAFT_NPM_CLIENTS is not set (./test sets it)")
    # Node looks for packages beside the program, so it is read from where they are.
    program = open(PROGRAM, encoding="utf-8").read()
    done = subprocess.run(["node", "--input-type=module", "-", scripted(ANSWERS).url],
                          input=program, cwd=FOLDER, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("dialect,end,last", [
    ("chat", "tool_calls", None), ("responses", "completed", "response.completed"),
    ("messages", "tool_use", "message_stop")])
def test_tools_whole_and_streamed(seen, dialect, end, last):
    got = seen[dialect]
    assert got["whole"] == got["streamed"]
    assert got["whole"]["text"] == "One moment." and got["whole"]["end"] == end
    [[name, arguments]] = got["whole"]["calls"]
    assert name == "weather" and json.loads(arguments) == {"city": 'Ac"cra'}
    assert got["chunks"] > 4 and got.get("last") == last
    assert got["after"] == "It is 30 degrees."


def test_failures_are_the_clients_own(seen):
    assert seen["failures"] == [["NotFoundError", 404], ["NotFoundError", 404],
                                ["BadRequestError", 400]]
