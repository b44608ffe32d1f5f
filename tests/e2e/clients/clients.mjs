// Drives a server with OpenAI's and Anthropic's npm clients and prints what each of them understood
// as one JSON object. usage: node clients.mjs URL   (the script of test_npm_clients.py answers)
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const url = process.argv[2];
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const model = 'scripted';
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const messages = [{ role: 'user', content: 'weather in Accra?' }];
const about = { name: 'weather', description: 'x' };

async function chat() {
  const tools = [{ type: 'function', function: { ...about, parameters } }];
  const whole = await openai.chat.completions.create({ model, messages, tools });
  const stream = openai.chat.completions.stream({ model, messages, tools });
  let chunks = 0;
  for await (const chunk of stream) chunks += chunk.choices.length > 0 ? 1 : 0;
  const streamed = await stream.finalChatCompletion();
  const turn = whole.choices[0].message;
  const results = turn.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '30' }));
  const after = await openai.chat.completions.create({
    model, tools, messages: [...messages, turn, ...results],
  });
  const seen = (c) => ({
    text: c.message.content,
    calls: c.message.tool_calls.map((t) => [t.function.name, t.function.arguments]),
    end: c.finish_reason,
  });
  return { whole: seen(whole.choices[0]), streamed: seen(streamed.choices[0]), chunks,
           after: after.choices[0].message.content };
}

async function responses() {
  const tools = [{ type: 'function', strict: false, ...about, parameters }];
  const input = messages[0].content;
  const whole = await openai.responses.create({ model, input, tools });
  const stream = openai.responses.stream({ model, input, tools });
  const events = [];
  for await (const event of stream) events.push(event.type);
  const streamed = await stream.finalResponse();
  const results = streamed.output.filter((item) => item.type === 'function_call')
    .map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: '30' }));
  const after = await openai.responses.create({
    model, tools, input: results, previous_response_id: streamed.id,
  });
  const seen = (r) => ({
    text: r.output_text,
    calls: r.output.filter((i) => i.type === 'function_call').map((c) => [c.name, c.arguments]),
    end: r.status,
  });
  return { whole: seen(whole), streamed: seen(streamed), chunks: events.length,
           last: events.at(-1), after: after.output_text };
}

async function message() {
  const tools = [{ ...about, input_schema: parameters }];
  const rest = { model, messages, tools, max_tokens: 500 };
  const whole = await anthropic.messages.create(rest);
  const stream = anthropic.messages.stream(rest);
  const events = [];
  for await (const event of stream) events.push(event.type);
  const streamed = await stream.finalMessage();
  const results = whole.content.filter((b) => b.type === 'tool_use')
    .map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: '30' }));
  const after = await anthropic.messages.create({
    ...rest,
    messages: [...messages, { role: 'assistant', content: whole.content },
               { role: 'user', content: results }],
  });
  const text = (m) => m.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
  const seen = (m) => ({
    text: text(m),
    calls: m.content.filter((b) => b.type === 'tool_use')
      .map((b) => [b.name, JSON.stringify(b.input)]),
    end: m.stop_reason,
  });
  return { whole: seen(whole), streamed: seen(streamed), chunks: events.length,
           last: events.at(-1), after: text(after) };
}

async function failures() {
  const out = [];
  const failing = [
    () => openai.chat.completions.create({ model: 'gone', messages }),
    () => openai.responses.create({ model, input: 'hi', previous_response_id: 'resp_gone' }),
    () => anthropic.messages.create({ model, messages: [{ role: 'wizard', content: 'x' }],
                                      max_tokens: 1 }),
  ];
  for (const one of failing) {
    await one().then(() => out.push('no failure'), (e) => out.push([e.constructor.name, e.status]));
  }
  return out;
}

console.log(JSON.stringify({
  chat: await chat(), responses: await responses(), messages: await message(),
  failures: await failures(),
}));
