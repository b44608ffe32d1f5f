"""encode and decode in the forms that scripts rely on, against the golden cases."""
import json
import os
import random

import pytest

from conftest import json_lines, needs, run

GOLDEN = "tests/golden/recipe"


def cases(name):
    with open(f"{GOLDEN}/{name}", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def departures():
    with open(f"{GOLDEN}/departures.md", encoding="utf-8") as lines:
        return [line.split("`")[1] for line in lines if line.startswith("| `")]


@pytest.mark.parametrize("version", ["v4", "v41"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_encode_gives_the_golden_pieces_and_ids(version, dialect):
    tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), f"deepseek_{version}.json")
    # Grounding marks are plain text here; a setting that requests can't say is left out.
    chosen = [case for case in cases(f"{version}_cases.jsonl")
              if case["api"] == dialect and "options" not in case
              and isinstance(case["request"], dict) and "grounding" not in case["id"]
              and case["id"].split("/", 1)[1] not in departures()]
    lines = "".join(json.dumps(case["request"]) + "\n" for case in chosen)
    replies = json_lines(run("encode", "--encoding", f"deepseek_{version}", "--tokenizer", tokenizer,
                             "--dialect", dialect, "--json", stdin=lines).stdout)
    assert len(replies) == len(chosen) > 40
    for case, reply in zip(chosen, replies):
        expected = case["expected"]
        if "error" in expected:
            assert reply["error"]["message"], case["id"]
            assert "token_ids" not in reply
        else:
            assert reply["text_pieces"] == expected["text_pieces"], case["id"]
            assert reply["token_ids"] == expected["token_ids"], case["id"]


def shown(message):
    """The message less the parts of call ids that chance made."""
    for call in message.get("tool_calls", []):
        head = 11 if call["id"][8:11] == "ET_" else 8
        assert len(call["id"]) == head + 24
        call["id"] = call["id"][:head] + "*"
    return message


@pytest.mark.parametrize("version", ["v4", "v41"])
def test_decode_gives_the_golden_messages_and_a_stream_that_joins_to_them(version):
    tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), f"deepseek_{version}.json")
    skipped = [part for part in departures() if part.startswith("parse/")]
    chosen = [case for case in cases(f"{version}_parse_cases.jsonl")
              if not any(part in case["id"] for part in skipped) and "logprobs" not in case["id"]]
    lines = "".join(json.dumps({key: case[key] for key in ("request", "parsing", "input")}) + "\n"
                    for case in chosen)
    replies = json_lines(run("decode", "--encoding", f"deepseek_{version}", "--tokenizer", tokenizer,
                             "--dialect", "chat", "--json", stdin=lines).stdout)
    assert len(replies) == len(chosen) > 100
    for case, reply in zip(chosen, replies):
        assert "error" not in reply, (case["id"], reply)
        final, expected = reply["final"], case["expected"]["final"]
        choice = final["choices"][0]
        deltas = [event["data"]["choices"][0]["delta"] for event in reply["events"]]
        joined = "".join(delta.get("content") or "" for delta in deltas)
        assert joined == choice["message"]["content"], case["id"]
        assert shown(choice["message"]) == expected["choices"][0]["message"], case["id"]
        assert choice["finish_reason"] == expected["choices"][0]["finish_reason"], case["id"]


def test_encode_refuses_what_it_does_not_know():
    tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), "deepseek_v4.json")
    done = run("encode", "--encoding", "llama", "--tokenizer", tokenizer, stdin="", check=False)
    assert done.returncode != 0 and "deepseek_v4" in done.stderr
    reply = run("encode", "--encoding", "deepseek_v4", "--tokenizer", tokenizer, "--json",
                stdin='{"messages": []}\n[]\n{"a": \n').stdout
    assert [sorted(line) for line in json_lines(reply)] == [["error"]] * 3


WRONG = [None, True, 0, -1, 1e308, "", [], {}, [[]], {"a": {}}, [{"type": "text"}], 2**64, "<think>"]


def damaged(value, chance, odds):
    if chance.random() < odds:
        return chance.choice(WRONG)
    if isinstance(value, dict):
        return {key: damaged(item, chance, odds) for key, item in value.items()
                if chance.random() > odds / 2}
    return [damaged(item, chance, odds) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_damaged_requests_give_a_prompt_or_an_error_each(dialect):
    tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), "deepseek_v41.json")
    chance = random.Random(5)
    requests = [damaged(case["request"], chance, 0.05) for case in cases("v41_cases.jsonl")
                if case["api"] == dialect for _ in range(4)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    replies = json_lines(run("encode", "--encoding", "deepseek_v41", "--tokenizer", tokenizer,
                             "--dialect", dialect, "--json", stdin=lines).stdout)
    assert len(replies) == len(requests)
    for reply in replies:
        assert reply.get("token_ids") or reply["error"]["message"]
