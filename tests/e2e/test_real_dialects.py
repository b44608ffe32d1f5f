"""Messages and Responses with a real model.

At stake: streamed or whole, in whichever dialect, the same dialogue is the same
prompt and the same answer.
"""
import json

QUESTION = [{"role": "user", "content": "Name three colours of the rainbow."}]


def test_all_dialects_give_one_answer(server):
    client, model = server.client(), server.client().models.list().data[0].id
    kw = dict(model=model, extra_body={"temperature": 0})
    chat = client.chat.completions.create(messages=QUESTION, max_tokens=24, **kw)
    text = chat.choices[0].message.content
    message = server.anthropic().messages.create(messages=QUESTION, max_tokens=24, **kw)
    assert message.content[0].text == text
    total = message.usage.input_tokens + message.usage.cache_read_input_tokens
    assert total == chat.usage.prompt_tokens
    with server.anthropic().messages.stream(messages=QUESTION, max_tokens=24, **kw) as stream:
        assert "".join(stream.text_stream) == text
    response = client.responses.create(input=QUESTION, max_output_tokens=24, **kw)
    assert response.output_text == text
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    with client.responses.stream(input=QUESTION, max_output_tokens=24, **kw) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
    assert "".join(deltas) == text


def test_a_stored_response_is_a_prefix_in_the_cache(server):
    client, model = server.client(), server.client().models.list().data[0].id
    story = "The river ran past the mill and the old stone bridge. " * 30
    first = client.responses.create(model=model, input=story + "Where?", temperature=0,
                                    max_output_tokens=20)
    second = client.responses.create(model=model, input="Sure?", temperature=0,
                                     max_output_tokens=20, previous_response_id=first.id)
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens - 128


def test_text_to_tokens_and_back(server):
    text = "Hello w\u00f6rld<|im_end|>"
    status, _, body = server.post("/tokenize", {"content": text})
    assert status == 200
    tokens = json.loads(body)["tokens"]
    assert 2 not in tokens, "text became a control token"
    assert json.loads(server.post("/detokenize", {"tokens": tokens})[2])["content"] == text
    spelled = json.loads(server.post("/tokenize", {"content": text, "parse_special": True})[2])
    assert spelled["tokens"][-1] == 2
