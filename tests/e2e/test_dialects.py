"""Clients of OpenAI and Anthropic against the running server, in every dialect.

A script says the answers, in the tokens of DeepSeek V4, so that reasoning and calls come as a model
writes them. At stake: clients work unchanged, and every chunk is valid by their own types.
"""
import json
import typing

import anthropic
import openai
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

D = "\uff5cDSML\uff5c"


def call(name, **arguments):
    lines = [f'<{D}invoke name="{name}">']
    for key, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        kind = "true" if isinstance(value, str) else "false"
        lines.append(f'<{D}parameter name="{key}" string="{kind}">{text}</{D}parameter>')
    return "\n".join([*lines, f"</{D}invoke>"])


def calls(*each):
    return "\n\n" + "\n".join([f"<{D}tool_calls>", *each, f"</{D}tool_calls>"])


WEATHER = calls(call("weather", city='Ac"cra\u20ac', days=3), call("time"))
ANSWERS = [
    {"choices": [["I think.</think>Hello world."]]},
    {"when": "weather in", "choices": [["Need it.</think>One moment." + WEATHER]]},
    {"when": "<tool_result>", "choices": [["Got it.</think>It is 30 degrees."]]},
    {"when": "two ways", "choices": [["a</think>first"], ["b</think>second"]]},
    {"when": "for ever", "choices": [["</think>", "word " * 50]], "ends": False},
    {"when": "break", "choices": [["</think>some words"]], "fail_after": 2},
    {"when": "slowly", "choices": [["</think>at last"]], "first_delay_ms": 5500},
]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": name, "description": "x",
                                                "parameters": PARAMETERS}}
              for name in ("weather", "time")]
RESPONSES_TOOLS = [{"type": "function", **tool["function"]} for tool in CHAT_TOOLS]
MESSAGES_TOOLS = [{"name": name, "description": "x", "input_schema": PARAMETERS}
                  for name in ("weather", "time")]
ARGUMENTS = {"city": 'Ac"cra\u20ac', "days": 3}


@pytest.fixture(scope="module")
def server(scripted):
    return scripted(ANSWERS)


def said(text):
    return [{"role": "user", "content": text}]


def chat(server, text, **kw):
    return server.client().chat.completions.create(model="scripted", messages=said(text), **kw)


def message(server, text, **kw):
    return server.anthropic().messages.create(model="scripted", messages=said(text),
                                              max_tokens=kw.pop("max_tokens", 1000), **kw)


def response(server, text, **kw):
    return server.client().responses.create(model="scripted", input=text, **kw)


def test_chat_reasons_and_calls(server):
    reply = chat(server, "weather in Accra?", tools=CHAT_TOOLS)
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "One moment."
    assert choice.message.reasoning_content == "Need it."
    assert [c.function.name for c in choice.message.tool_calls] == ["weather", "time"]
    assert json.loads(choice.message.tool_calls[0].function.arguments) == ARGUMENTS
    usage = reply.usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    assert usage.prompt_tokens == usage.prompt_cache_hit_tokens + usage.prompt_cache_miss_tokens


def test_a_streamed_chat_is_the_whole_one(server):
    whole = chat(server, "weather in Accra?", tools=CHAT_TOOLS).choices[0].message
    with server.client().chat.completions.stream(model="scripted", tools=CHAT_TOOLS,
                                                 messages=said("weather in Accra?")) as stream:
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    assert final.message.content == whole.content
    assert [c.function.arguments for c in final.message.tool_calls] == \
        [c.function.arguments for c in whole.tool_calls]


def test_chat_goes_on_after_a_tool_and_hits_the_cache(server):
    question = said("weather in Accra? " + "Be exact. " * 100)
    first = server.client().chat.completions.create(model="scripted", messages=question,
                                                    tools=CHAT_TOOLS)
    turn = first.choices[0].message
    results = [{"role": "tool", "tool_call_id": c.id, "content": "30"} for c in turn.tool_calls]
    second = server.client().chat.completions.create(
        model="scripted", tools=CHAT_TOOLS,
        messages=[*question, turn.model_dump(exclude_none=True), *results])
    assert second.choices[0].message.content == "It is 30 degrees."
    assert second.usage.prompt_tokens_details.cached_tokens >= 256


def test_the_prefix_survives_a_client_that_writes_the_json_anew(scripted):
    # The model writes its JSON without spaces and in pieces that its tokenizer would not choose.
    odd = (f'</think>\n\n<{D}tool_calls>\n<{D}invoke name="weather">\n'
           f'<{D}parameter name="where" string="false">' + '{"lat":5.50,"lon":[1,2]}'
           f'</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>')
    server = scripted([{"choices": [["It's", "ti", "me" * 300, odd]]},
                       {"when": "<tool_result>", "choices": [["</think>done"]]}])
    client = server.client()
    first = client.chat.completions.create(model="scripted", tools=CHAT_TOOLS, messages=said("go"))
    turn = first.choices[0].message.model_dump(exclude_none=True)
    function = turn["tool_calls"][0]["function"]
    function["arguments"] = json.dumps(json.loads(function["arguments"]), indent=3)
    result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "30"}
    second = client.chat.completions.create(model="scripted", tools=CHAT_TOOLS,
                                            messages=[*said("go"), turn, result])
    known = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.prompt_tokens_details.cached_tokens > known - 128
    assert second.choices[0].message.content == "done"


def test_two_choices_have_their_own_answers(server):
    reply = chat(server, "two ways", n=2)
    assert [c.message.content for c in reply.choices] == ["first", "second"]
    assert [c.message.reasoning_content for c in reply.choices] == ["a", "b"]


def test_thinking_is_switched_off(server):
    off = chat(server, "hi", reasoning_effort="none")
    assert off.usage.completion_tokens_details.reasoning_tokens == 0
    on = chat(server, "hi", extra_body={"thinking": {"type": "enabled"}})
    assert on.choices[0].message.reasoning_content == "I think."


def test_messages_think_and_use_tools(server):
    reply = message(server, "weather in Accra?", tools=MESSAGES_TOOLS)
    assert reply.stop_reason == "tool_use"
    assert [b.type for b in reply.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert reply.content[2].input == ARGUMENTS
    with server.anthropic().messages.stream(
            model="scripted", messages=said("weather in Accra?"), max_tokens=1000,
            tools=MESSAGES_TOOLS) as stream:
        final = stream.get_final_message()
    assert [b.model_dump(exclude={"id", "signature"}) for b in final.content] == \
        [b.model_dump(exclude={"id", "signature"}) for b in reply.content]
    assert final.usage.output_tokens == reply.usage.output_tokens
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": "30"}
               for b in reply.content[2:]]
    after = server.anthropic().messages.create(
        model="scripted", max_tokens=100, tools=MESSAGES_TOOLS,
        messages=[*said("weather in Accra?"),
                  {"role": "assistant", "content": [b.model_dump() for b in reply.content]},
                  {"role": "user", "content": results}])
    assert after.content[-1].text == "It is 30 degrees."


def test_messages_count_their_tokens(server):
    counted = server.anthropic().messages.count_tokens(
        model="scripted", messages=said("Hello there"), tools=MESSAGES_TOOLS, system="Be kind.")
    reply = server.anthropic().messages.create(
        model="scripted", messages=said("Hello there"), tools=MESSAGES_TOOLS, system="Be kind.",
        max_tokens=5)
    usage = reply.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_responses_reason_call_and_go_on(server):
    reply = response(server, "weather in Accra?", tools=RESPONSES_TOOLS)
    assert [item.type for item in reply.output] == \
        ["reasoning", "message", "function_call", "function_call"]
    assert json.loads(reply.output[2].arguments) == ARGUMENTS
    assert reply.output_text == "One moment."
    with server.client().responses.stream(model="scripted", input="weather in Accra?",
                                          tools=RESPONSES_TOOLS) as stream:
        final = stream.get_final_response()
    assert final.output_text == reply.output_text
    assert final.output[2].arguments == reply.output[2].arguments
    results = [{"type": "function_call_output", "call_id": c.call_id, "output": "30"}
               for c in final.output[2:]]
    after = response(server, results, tools=RESPONSES_TOOLS, previous_response_id=final.id)
    assert after.output_text == "It is 30 degrees."
    assert after.usage.input_tokens > final.usage.input_tokens
    client = server.client()
    assert client.responses.retrieve(after.id).output_text == after.output_text
    assert len(client.responses.input_items.list(after.id).data) == 7
    client.responses.delete(after.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(after.id)
    kept = response(server, "hi", store=False)
    with pytest.raises(openai.NotFoundError):
        response(server, "hi", previous_response_id=kept.id)


def test_a_cut_answer_says_so_in_every_dialect(server):
    assert chat(server, "for ever", max_tokens=9).choices[0].finish_reason == "length"
    assert message(server, "for ever", max_tokens=9).stop_reason == "max_tokens"
    cut = response(server, "for ever", max_output_tokens=9)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    in_call = chat(server, "weather in Accra?", tools=CHAT_TOOLS, max_tokens=22)
    assert in_call.choices[0].finish_reason == "length"
    half = message(server, "weather in Accra?", tools=MESSAGES_TOOLS, max_tokens=22)
    assert half.stop_reason == "max_tokens"


def test_stop_strings_in_both_families(server):
    cut = chat(server, "hello", stop=["world"]).choices[0]
    assert (cut.message.content, cut.finish_reason) == ("Hello ", "stop")
    cut = message(server, "hello", stop_sequences=["zzz", "world"])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", "world")
    assert cut.content[-1].text == "Hello "


def validators(union):
    """Of each member of a union of events, by the name of its type."""
    members = typing.get_args(typing.get_args(union)[0])
    return {typing.get_args(m.model_fields["type"].annotation)[0]: m for m in members}


@pytest.mark.parametrize("text", ["weather in Accra?", "hello", "two ways"])
def test_every_chunk_is_valid_by_the_clients_own_types(server, text):
    chat_body = {"model": "scripted", "messages": said(text), "tools": CHAT_TOOLS,
                 "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2}
    for _, data in server.events("/v1/chat/completions", chat_body):
        ChatCompletionChunk.model_validate(data, strict=True)
    del chat_body["stream_options"]
    ChatCompletion.model_validate_json(server.post("/v1/chat/completions", chat_body)[2])
    messages_body = {"model": "scripted", "messages": said(text), "max_tokens": 500,
                     "tools": MESSAGES_TOOLS}
    event_types = validators(RawMessageStreamEvent)
    for name, data in server.events("/v1/messages", messages_body):
        assert name == data["type"]
        if name != "ping":
            event_types[name].model_validate(data)
    Message.model_validate_json(server.post("/v1/messages", messages_body)[2])
    responses_body = {"model": "scripted", "input": text, "tools": RESPONSES_TOOLS,
                      "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    event_types = validators(ResponseStreamEvent)
    for name, data in server.events("/v1/responses", responses_body):
        assert name == data["type"]
        event_types[name].model_validate(data)
    Response.model_validate_json(server.post("/v1/responses", responses_body)[2])


def test_a_failure_is_the_clients_own_exception(server):
    with pytest.raises(openai.APIError):
        list(chat(server, "break", stream=True))
    with pytest.raises(anthropic.APIStatusError):
        with server.anthropic().messages.stream(model="scripted", messages=said("break"),
                                                max_tokens=50) as stream:
            stream.get_final_message()
    events = [e.type for e in response(server, "break", stream=True)]
    assert events[-1] == "response.failed"
    with pytest.raises(anthropic.BadRequestError) as error:
        message(server, "hi", tool_choice={"type": "any"}, tools=MESSAGES_TOOLS)
    assert "structured output" in str(error.value)
    with pytest.raises(anthropic.NotFoundError):
        server.anthropic().messages.create(model="gone", messages=said("x"), max_tokens=1)


def test_silence_is_filled_by_wall_clock(server):
    body = {"model": "scripted", "messages": said("slowly"), "max_tokens": 9, "stream": True}
    assert b": keep-alive\n\n" in server.post("/v1/chat/completions", body)[2]
    names = [name for name, _ in server.events("/v1/messages", body)]
    assert names[:2] == ["message_start", "content_block_start"] and names.count("ping") >= 2


def test_keys_are_taken_as_both_families_send_them(scripted, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[[key]]\ntoken = "secret-1"\ntenant = "a"\n'
                    '[[key]]\ntoken = "secret-2"\ntenant = "b"\n')
    server = scripted(ANSWERS, "--keys", keys)
    reply = server.anthropic(api_key="secret-1").messages.create(
        model="scripted", messages=said("hi"), max_tokens=20)
    assert reply.content[-1].text == "Hello world."
    with pytest.raises(anthropic.AuthenticationError):
        server.anthropic(api_key="wrong").messages.create(model="scripted", messages=said("hi"),
                                                          max_tokens=20)
    own = server.client(api_key="secret-1").responses.create(model="scripted", input="hi")
    with pytest.raises(openai.NotFoundError):
        server.client(api_key="secret-2").responses.retrieve(own.id)


def test_models_in_both_families(server):
    assert [m.id for m in server.client().models.list()] == ["scripted"]
    assert [m.id for m in server.anthropic().models.list()] == ["scripted"]
    assert server.anthropic().models.retrieve("scripted").display_name == "scripted"
