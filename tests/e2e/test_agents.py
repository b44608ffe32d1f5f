"""An agent's loop of 20 turns with tools through each dialect.

At stake: each turn prefills the new tokens and at most one block more, although the client writes
the calls' JSON in its own way.
"""
import json

import pytest
from test_dialects import CHAT_TOOLS, MESSAGES_TOOLS, RESPONSES_TOOLS, call, calls

BLOCK_TOKENS = 128
TURNS = 20


def question(agent):
    """Of each dialect its own, or it would find another's prefixes in the cache."""
    text = f"{type(agent).__name__}: go through the cities, one after the other. "
    return {"role": "user", "content": text + "Be exact. " * 60}


def script():
    """Turn i reasons, says something and calls; it follows the result of turn i - 1."""
    answers = []
    for i in range(TURNS):
        words = f"City {i} is next. " + "So I look. " * (i % 7 * 5)
        turn = words + "</think>Now " + str(i) + "." + calls(call("weather", city=f"c{i}", days=i))
        answers.append({"choices": [[turn]], **({"when": f"result-{i}."} if i else {})})
    return [*answers, {"when": f"result-{TURNS}.", "choices": [["Enough.</think>All seen."]]}]


def result(i):
    return f"{'rain and wind ' * (i % 5 * 12)} result-{i + 1}."


@pytest.fixture(scope="module")
def server(scripted):
    return scripted(script())


def rewritten(text):
    """The same JSON as another client writes it."""
    return json.dumps(json.loads(text), indent=2)


class Chat:
    def __init__(self, server):
        self.create = server.client().chat.completions.create
        self.messages = [question(self)]

    def turn(self):
        reply = self.create(model="scripted", messages=self.messages, tools=CHAT_TOOLS)
        message = reply.choices[0].message.model_dump(exclude_none=True)
        for c in message.get("tool_calls", []):
            c["function"]["arguments"] = rewritten(c["function"]["arguments"])
        self.messages.append(message)
        self.calls = [c["id"] for c in message.get("tool_calls", [])]
        usage = reply.usage
        return (message["content"], usage.prompt_tokens, usage.completion_tokens,
                usage.prompt_tokens_details.cached_tokens)

    def answer(self, text):
        self.messages += [{"role": "tool", "tool_call_id": c, "content": text} for c in self.calls]


class Responses:
    def __init__(self, server):
        self.create = server.client().responses.create
        self.items = [question(self)]

    def turn(self):
        reply = self.create(model="scripted", input=self.items, tools=RESPONSES_TOOLS, store=False)
        items = [item.model_dump(exclude_none=True) for item in reply.output]
        for item in items:
            if item["type"] == "function_call":
                item["arguments"] = rewritten(item["arguments"])
        self.items += items
        self.calls = [item["call_id"] for item in items if item["type"] == "function_call"]
        usage = reply.usage
        return (reply.output_text, usage.input_tokens, usage.output_tokens,
                usage.input_tokens_details.cached_tokens)

    def answer(self, text):
        self.items += [{"type": "function_call_output", "call_id": c, "output": text}
                       for c in self.calls]


class StoredResponses(Responses):
    """Sends what is new only; the server keeps the rest."""

    def turn(self):
        previous = {"previous_response_id": self.last} if hasattr(self, "last") else {}
        reply = self.create(model="scripted", input=self.items, tools=RESPONSES_TOOLS, **previous)
        self.last, self.items = reply.id, []
        self.calls = [item.call_id for item in reply.output if item.type == "function_call"]
        usage = reply.usage
        return (reply.output_text, usage.input_tokens, usage.output_tokens,
                usage.input_tokens_details.cached_tokens)


class Messages:
    def __init__(self, server):
        self.create = server.anthropic().messages.create
        self.messages = [question(self)]

    def turn(self):
        reply = self.create(model="scripted", messages=self.messages, tools=MESSAGES_TOOLS,
                            max_tokens=1000)
        content = [block.model_dump(exclude_none=True) for block in reply.content]
        self.messages.append({"role": "assistant", "content": content})
        self.calls = [block["id"] for block in content if block["type"] == "tool_use"]
        usage = reply.usage
        text = "".join(block["text"] for block in content if block["type"] == "text")
        return (text, usage.input_tokens + usage.cache_read_input_tokens, usage.output_tokens,
                usage.cache_read_input_tokens)

    def answer(self, text):
        self.messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": c, "content": text} for c in self.calls]})


@pytest.mark.parametrize("dialect", [Chat, Responses, StoredResponses, Messages])
def test_an_agent_prefills_what_is_new(server, dialect):
    agent = dialect(server)
    known = 0   # the tokens that the server has seen or said
    for i in range(TURNS):
        text, prompt, said, cached = agent.turn()
        assert text == f"Now {i}.", i
        new = prompt - known
        assert new > 0, i
        assert prompt - cached <= new + BLOCK_TOKENS, (i, prompt, known, cached)
        known = prompt + said
        agent.answer(result(i))
    text, prompt, _, cached = agent.turn()
    assert text == "All seen."
    assert prompt - cached <= prompt - known + BLOCK_TOKENS
    assert cached > 1000
