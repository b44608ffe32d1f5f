"""encode and decode in the forms that scripts rely on, against the golden cases."""
import json
import os
import random
import re

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


def without_chance(value):
    """The value less the parts of call ids that chance made."""
    return json.loads(re.sub(r"(call_\d\d_(?:ET_)?)[A-Za-z0-9]{24}", r"\1*", json.dumps(value)))


def decode_cases(version, dialect):
    tokenizer = os.path.join(needs("LINESHAFT_TOKENIZERS"), f"deepseek_{version}.json")
    skipped = [part for part in departures() if part.startswith("parse/")]
    chosen = [case for case in cases(f"{version}_parse_cases.jsonl") if case["api"] == dialect
              and not any(part in case["id"] for part in skipped)]
    lines = "".join(json.dumps({key: case[key] for key in ("request", "parsing", "input")}) + "\n"
                    for case in chosen)
    replies = json_lines(run("decode", "--encoding", f"deepseek_{version}", "--tokenizer", tokenizer,
                             "--dialect", dialect, "--json", stdin=lines).stdout)
    assert len(replies) == len(chosen) > 70
    for case, reply in zip(chosen, replies):
        if case["expected"].get("error"):
            assert reply["error"]["message"], case["id"]
        else:
            assert "error" not in reply, (case["id"], reply)
            yield case, without_chance(reply)


@pytest.mark.parametrize("version", ["v4", "v41"])
def test_decode_gives_the_golden_messages_and_a_stream_that_joins_to_them(version):
    for case, reply in decode_cases(version, "chat"):
        final, expected = reply["final"], case["expected"]["final"]
        assert final == expected, case["id"]
        deltas = [event["data"]["choices"][0]["delta"] for event in reply["events"]]
        joined = "".join(delta.get("content") or "" for delta in deltas)
        assert joined == final["choices"][0]["message"]["content"], case["id"]


def joined_events(events):
    """The events with deltas in a row as one, without numbers and whole responses."""
    out = []
    for event in events:
        data = {key: value for key, value in event["data"].items()
                if key not in ("sequence_number", "response")}
        assert event["event"] == data["type"]
        delta = data.pop("delta", None)
        if isinstance(delta, str):
            delta = {"text": delta}
        logprobs = data.pop("logprobs", None) if delta else None
        last = out[-1] if out else None
        if delta and last and last["data"] == data and last["delta"].keys() == delta.keys() \
                and "stop_reason" not in delta:
            for key in delta:
                if key != "type":
                    last["delta"][key] += delta[key]
            if logprobs:
                last["logprobs"] += logprobs
        else:
            out.append({"data": data, "delta": delta, "logprobs": logprobs})
    return out


@pytest.mark.parametrize("version", ["v4", "v41"])
@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_decode_gives_the_golden_events_and_replies(version, dialect):
    for case, reply in decode_cases(version, dialect):
        expected = case["expected"]
        for number, event in enumerate(reply["events"]):
            assert event["data"].get("sequence_number", number) == number
        assert joined_events(reply["events"]) == joined_events(expected["events"]), case["id"]
        final = {key: reply["final"][key] for key in expected["final"]}
        assert final == expected["final"], case["id"]
        if dialect == "responses":
            assert reply["events"][-1]["data"]["response"] == reply["final"], case["id"]


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
