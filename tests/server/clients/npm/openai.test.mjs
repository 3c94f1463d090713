// The official openai SDK for Node against `gemmatrace serve`: chat, Responses, completions, errors and aborts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { CITY, FRANCE, KEY, OSLO, OSLO_IS_SUNNY, PARIS, SUNNY, Server, eventually } from './server.mjs';

const WEATHER = {
  type: 'function',
  function: { name: 'get_weather', description: 'Gets the current weather of a city.', parameters: CITY },
};
const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 20 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    tags: { type: 'array', items: { enum: ['kind', 'tall'] }, maxItems: 3 },
  },
  required: ['name', 'age', 'tags'],
  additionalProperties: false,
};
// Longer than one call: the model has to go on with another.
const SEVERAL_CALLS = { messages: [OSLO], tools: [WEATHER], tool_choice: 'required', min_tokens: 24, max_tokens: 200 };

let server;
let client;
before(async () => {
  server = await Server.start('--context', '4096', '--api-key', KEY);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 });
});
after(() => server.stop());

const create = (members) => client.chat.completions.create({ model: 'demo', messages: [FRANCE], ...members });

async function chunksOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe('models', () => {
  test('the model is listed and found', async () => {
    assert.deepEqual((await client.models.list()).data.map((model) => model.id), ['demo']);
    assert.equal((await client.models.retrieve('demo')).max_model_len, 4096);
  });
});

describe('chat', () => {
  test('an answer comes whole, with usage and a request id', async () => {
    const answer = await create();
    assert.equal(answer.choices[0].message.content, PARIS);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.ok(answer._request_id);
  });

  test('a stream is the same answer in pieces', async () => {
    const chunks = await chunksOf(await create({ stream: true, stream_options: { include_usage: true } }));
    const pieces = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta.content ?? ''));
    assert.ok(pieces.length > 2);
    assert.equal(pieces.join(''), PARIS);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    assert.ok(chunks.at(-1).usage.total_tokens > 0);
    assert.deepEqual(chunks.at(-1).choices, []);
    const final = await client.chat.completions.stream({ model: 'demo', messages: [FRANCE] }).finalContent();
    assert.equal(final, PARIS);
  });

  test('a tool is called, streamed or not, and its result read', async () => {
    const whole = await create({ messages: [OSLO], tools: [WEATHER] });
    const streamed = await client.chat.completions
      .stream({ model: 'demo', messages: [OSLO], tools: [WEATHER] })
      .finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      assert.equal(choices[0].finish_reason, 'tool_calls');
      const [call] = choices[0].message.tool_calls;
      assert.equal(call.function.name, 'get_weather');
      assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
      const result = { role: 'tool', tool_call_id: call.id, content: SUNNY };
      const answer = await create({ messages: [OSLO, choices[0].message, result], tools: [WEATHER] });
      assert.equal(answer.choices[0].message.content, OSLO_IS_SUNNY);
    }
  });

  test("the SDK's tool runner comes to an answer", async () => {
    const asked = [];
    const tool = { type: 'function', function: { ...WEATHER.function, parse: JSON.parse, function: weather } };
    function weather({ city }) {
      asked.push(city);
      return SUNNY;
    }
    const runner = client.chat.completions.runTools({ model: 'demo', messages: [OSLO], tools: [tool] });
    assert.equal(await runner.finalContent(), OSLO_IS_SUNNY);
    assert.deepEqual(asked, ['Oslo']);
  });

  test('several calls of one reply have indices and ids of their own', async () => {
    const whole = (await create(SEVERAL_CALLS)).choices[0];
    const streamed = (await client.chat.completions.stream({ model: 'demo', ...SEVERAL_CALLS }).finalChatCompletion())
      .choices[0];
    for (const choice of [whole, streamed]) {
      const calls = choice.message.tool_calls;
      assert.equal(choice.finish_reason, 'tool_calls');
      assert.ok(calls.length > 1);
      assert.equal(new Set(calls.map((call) => call.id)).size, calls.length);
      for (const call of calls) assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
    }
    assert.equal(streamed.message.tool_calls.length, whole.message.tool_calls.length);
    const one = await create({ ...SEVERAL_CALLS, parallel_tool_calls: false });
    assert.equal(one.choices[0].message.tool_calls.length, 1);
  });

  test('a schema is held to', async () => {
    const response_format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: PERSON } };
    const messages = [{ role: 'user', content: 'Invent a person' }];
    for (const seed of [1, 2, 3]) {
      const request = { model: 'demo', messages, response_format, temperature: 1, seed, max_tokens: 1000 };
      const { parsed } = (await client.chat.completions.parse(request)).choices[0].message;
      assert.deepEqual(Object.keys(parsed).sort(), ['age', 'name', 'tags']);
      assert.ok(parsed.name.length <= 20 && Number.isInteger(parsed.age) && parsed.age >= 0 && parsed.age <= 120);
      assert.ok(parsed.tags.length <= 3 && parsed.tags.every((tag) => ['kind', 'tall'].includes(tag)));
      const streamed = await client.chat.completions.stream(request).finalChatCompletion();
      assert.deepEqual(JSON.parse(streamed.choices[0].message.content), parsed);
    }
  });

  test('log-probabilities join to the text', async () => {
    const { logprobs } = (await create({ logprobs: true, top_logprobs: 3 })).choices[0];
    assert.equal(logprobs.content.map((entry) => entry.token).join(''), PARIS);
    assert.equal(Buffer.from(logprobs.content.flatMap((entry) => entry.bytes)).toString(), PARIS);
    for (const entry of logprobs.content) {
      assert.equal(entry.top_logprobs.length, 3);
      assert.equal(entry.top_logprobs[0].logprob, entry.logprob); // greedy: the best one
    }
  });

  test('several choices come in one answer and in one stream', async () => {
    const request = { n: 3, temperature: 1, seed: 7, max_tokens: 20 };
    const whole = await create(request);
    assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2]);
    const texts = ['', '', ''];
    for await (const chunk of await create({ ...request, stream: true })) {
      for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? '';
    }
    assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
  });

  test('a stop string ends the answer before it', async () => {
    for (const stop of [' Paris', ['nothing', ' Paris']]) {
      const { message, finish_reason } = (await create({ stop })).choices[0];
      assert.deepEqual([message.content, finish_reason], ['The capital of France is', 'stop']);
    }
  });
});

describe('responses', () => {
  const ask = (members) => client.responses.create({ model: 'demo', input: FRANCE.content, ...members });
  const tool = { type: 'function', strict: true, ...WEATHER.function };

  test('a stream is numbered without gaps and ends in the whole response', async () => {
    const events = await chunksOf(await ask({ stream: true }));
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.deepEqual([events[0].type, events.at(-1).type], ['response.created', 'response.completed']);
    const text = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
    assert.ok(text.length > 2);
    assert.equal(text.join(''), PARIS);
    const final = await client.responses.stream({ model: 'demo', input: FRANCE.content }).finalResponse();
    assert.equal(final.output_text, PARIS);
    assert.equal((await ask()).output_text, PARIS);
  });

  test('a call is streamed, and its output goes on by id', async () => {
    const input = OSLO.content;
    const first = await client.responses.stream({ model: 'demo', input, tools: [tool] }).finalResponse();
    const call = first.output.at(-1);
    assert.deepEqual([call.type, call.name], ['function_call', 'get_weather']);
    assert.deepEqual(JSON.parse(call.arguments), { city: 'Oslo' });
    const result = { type: 'function_call_output', call_id: call.call_id, output: SUNNY };
    const second = await ask({ previous_response_id: first.id, input: [result], tools: [tool] });
    assert.equal(second.output_text, OSLO_IS_SUNNY);
  });

  test('a schema is held to', async () => {
    const text = { format: { type: 'json_schema', name: 'person', strict: true, schema: PERSON } };
    const parsed = (await client.responses.parse({ model: 'demo', input: 'Invent a person', text })).output_parsed;
    assert.deepEqual(Object.keys(parsed).sort(), ['age', 'name', 'tags']);
  });

  test('a response, its input items and its deletion are found by id', async () => {
    const response = await ask();
    assert.equal((await client.responses.retrieve(response.id)).output_text, PARIS);
    const items = await chunksOf(client.responses.inputItems.list(response.id));
    assert.deepEqual(items.map((item) => [item.role, item.content[0].text]), [['user', FRANCE.content]]);
    await client.responses.delete(response.id);
    await assert.rejects(client.responses.retrieve(response.id), OpenAI.NotFoundError);
    await assert.rejects(chunksOf(client.responses.inputItems.list(response.id)), OpenAI.NotFoundError);
  });
});

describe('legacy completions', () => {
  const prompt = 'The capital of France is';

  test('a text goes on, whole, echoed and streamed', async () => {
    const request = { model: 'demo', prompt, max_tokens: 3 };
    const [choice] = (await client.completions.create({ ...request, echo: true, logprobs: 2 })).choices;
    assert.ok(choice.text.startsWith(prompt));
    assert.equal(choice.logprobs.tokens.length, choice.logprobs.token_logprobs.length);
    assert.equal(choice.logprobs.tokens.slice(1).join(''), choice.text); // the first one is <bos>
    const chunks = await chunksOf(await client.completions.create({ ...request, stream: true }));
    const text = chunks.map((chunk) => chunk.choices[0].text).join('');
    assert.equal(prompt + text, choice.text);
  });
});

describe('errors', () => {
  test('400, 401 and 404 have classes and members that programs catch', async () => {
    const wrong = await create({ temperature: 'hot' }).catch((error) => error);
    assert.ok(wrong instanceof OpenAI.BadRequestError);
    assert.deepEqual([wrong.status, wrong.param, wrong.type], [400, 'temperature', 'invalid_request_error']);
    assert.ok(wrong.requestID);
    const long = await create({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] }).catch((error) => error);
    assert.ok(long instanceof OpenAI.BadRequestError);
    assert.equal(long.code, 'context_length_exceeded');
    const other = await create({ model: 'gpt-4', stream: true }).catch((error) => error);
    assert.ok(other instanceof OpenAI.NotFoundError);
    assert.equal(other.code, 'model_not_found');
    await assert.rejects(client.withOptions({ apiKey: 'wrong' }).models.list(), OpenAI.AuthenticationError);
  });

  test('a full queue is 429, and the SDK comes back by itself', async () => {
    const small = await Server.start('--context', '4096', '--slots', '1', '--max-queue', '0');
    try {
      const busy = new OpenAI({ baseURL: `${small.url}/v1`, apiKey: 'none', maxRetries: 0 });
      const request = { model: 'demo', messages: [FRANCE] };
      const long = await busy.chat.completions.create({ ...request, stream: true, max_tokens: 3000, ignore_eos: true });
      const refused = await busy.chat.completions.create(request).catch((error) => error);
      assert.ok(refused instanceof OpenAI.RateLimitError, String(refused));
      assert.equal(refused.type, 'rate_limit_error');
      assert.match(refused.headers.get('retry-after'), /^\d+$/);
      const patient = busy.chat.completions.create(request, { maxRetries: 5 });
      long.controller.abort();
      assert.equal((await patient).choices[0].message.content, PARIS);
    } finally {
      await small.stop();
    }
  });
});

describe('aborts', () => {
  const endless = { messages: [{ role: 'user', content: 'Count' }], max_tokens: 3500, ignore_eos: true };

  test('an abort in mid-stream frees the slot', async () => {
    const stream = await create({ ...endless, stream: true });
    for await (const chunk of stream) {
      // What was read already may still come after the abort.
      if (stream.controller.signal.aborted || !chunk.choices[0].delta.content) continue;
      await eventually(async () => (await server.metric('gemmatrace_num_requests_running')) === 1);
      stream.controller.abort();
    }
    await eventually(() => server.isIdle());
  });

  test('leaving the loop frees the slot', async () => {
    for await (const chunk of await create({ ...endless, stream: true })) {
      if (chunk.choices[0].delta.content) break;
    }
    await eventually(() => server.isIdle());
  });

  test('an abort before the answer frees the slot', async () => {
    const controller = new AbortController();
    const answer = create({ ...endless, max_tokens: 400 });
    const aborted = client.chat.completions.create({ model: 'demo', ...endless }, { signal: controller.signal });
    await eventually(async () => (await server.metric('gemmatrace_num_requests_running')) === 2);
    controller.abort();
    await assert.rejects(aborted, OpenAI.APIUserAbortError);
    await eventually(async () => (await server.metric('gemmatrace_num_requests_running')) < 2);
    assert.equal((await answer).choices[0].finish_reason, 'length');
    await eventually(() => server.isIdle());
  });
});
