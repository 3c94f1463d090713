// The official Anthropic SDK for Node against `gemmatrace serve`: messages, streams, tools, counts, errors and aborts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { CITY, FRANCE, KEY, OSLO, OSLO_IS_SUNNY, PARIS, SUNNY, Server, eventually } from './server.mjs';

const WEATHER = { name: 'get_weather', description: 'Gets the current weather of a city.', input_schema: CITY };

let server;
let client;
before(async () => {
  server = await Server.start('--context', '4096', '--api-key', KEY, '--max-body-mib', '1');
  client = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0 });
});
after(() => server.stop());

const request = (members) => ({ model: 'demo', max_tokens: 100, messages: [FRANCE], ...members });
const create = (members) => client.messages.create(request(members));
const final = (members) => client.messages.stream(request(members)).finalMessage();

describe('messages', () => {
  test('a message comes whole and as a stream', async () => {
    for (const message of [await create(), await final()]) {
      assert.deepEqual(message.content.map(({ type, text }) => [type, text]), [['text', PARIS]]);
      assert.deepEqual([message.role, message.stop_reason, message.stop_sequence], ['assistant', 'end_turn', null]);
      assert.ok(message.usage.output_tokens > 0);
    }
    const names = [];
    for await (const event of await create({ stream: true })) names.push(event.type);
    assert.equal(names[0], 'message_start');
    assert.equal(names.at(-1), 'message_stop');
    assert.ok(names.filter((name) => name === 'content_block_delta').length > 2);
  });

  test('every end has its reason', async () => {
    for (const ask of [create, final]) {
      assert.equal((await ask({ max_tokens: 3 })).stop_reason, 'max_tokens');
      const stopped = await ask({ stop_sequences: ['nothing', ' Paris'] });
      assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', ' Paris']);
      assert.equal(stopped.content[0].text, 'The capital of France is');
    }
  });

  test('a thought comes first and is taken back', async () => {
    const messages = [{ role: 'user', content: 'What is the capital of Ghana?' }];
    const message = await final({ messages, thinking: { type: 'adaptive' } });
    assert.deepEqual(message.content.map((block) => block.type), ['thinking', 'text']);
    assert.ok(message.content[0].signature);
    const more = { role: 'user', content: 'And of Spain?' };
    const next = await create({ messages: [...messages, { role: 'assistant', content: message.content }, more] });
    assert.equal(next.content[0].text, 'The capital of Spain is Madrid.');
  });
});

describe('tools', () => {
  test('a tool is called, streamed or not, and its result read', async () => {
    for (const ask of [create, final]) {
      const message = await ask({ messages: [OSLO], tools: [WEATHER] });
      assert.equal(message.stop_reason, 'tool_use');
      const call = message.content.at(-1);
      assert.deepEqual([call.type, call.name, call.input], ['tool_use', 'get_weather', { city: 'Oslo' }]);
      const result = { type: 'tool_result', tool_use_id: call.id, content: SUNNY };
      const history = [OSLO, { role: 'assistant', content: message.content }, { role: 'user', content: [result] }];
      assert.equal((await ask({ messages: history, tools: [WEATHER] })).content[0].text, OSLO_IS_SUNNY);
    }
  });

  test('several calls of one message are blocks of their own, unless that is forbidden', async () => {
    const several = { messages: [OSLO], tools: [WEATHER], min_tokens: 24 };
    for (const ask of [create, final]) {
      const { content, stop_reason } = await ask({ ...several, tool_choice: { type: 'any' } });
      assert.equal(stop_reason, 'tool_use');
      assert.ok(content.length > 1);
      assert.equal(new Set(content.map((block) => block.id)).size, content.length);
      for (const { type, input } of content) assert.deepEqual([type, typeof input.city], ['tool_use', 'string']);
      const one = await ask({ ...several, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
      assert.equal(one.content.filter((block) => block.type === 'tool_use').length, 1);
    }
  });

  test("the SDK's tool runner comes to an answer", async () => {
    const asked = [];
    const run = ({ city }) => asked.push(city) && SUNNY;
    const tool = { ...WEATHER, type: 'custom', run, parse: (input) => input };
    const runner = client.beta.messages.toolRunner(request({ messages: [OSLO], tools: [tool] }));
    assert.equal((await runner.runUntilDone()).content[0].text, OSLO_IS_SUNNY);
    assert.deepEqual(asked, ['Oslo']);
  });
});

describe('counts', () => {
  test('count_tokens is what usage says, at the start and at the end of a stream', async () => {
    const asked = { messages: [OSLO], tools: [WEATHER], system: 'Answer with one word.' };
    const { input_tokens } = await client.messages.countTokens({ model: 'demo', ...asked });
    for (const isCached of [false, true]) {
      const events = [];
      for await (const event of await create({ ...asked, stream: true })) events.push(event);
      const start = events[0].message.usage;
      const end = events.find((event) => event.type === 'message_delta').usage;
      assert.equal(start.input_tokens + start.cache_read_input_tokens, input_tokens);
      assert.deepEqual(
        [start.input_tokens, start.cache_read_input_tokens],
        [end.input_tokens, end.cache_read_input_tokens],
      );
      if (isCached) assert.ok(start.cache_read_input_tokens > 0);
    }
  });
});

describe('models', () => {
  test('the model is listed and found', async () => {
    const page = await client.models.list();
    assert.deepEqual(page.data.map((model) => [model.id, model.type]), [['demo', 'model']]);
    assert.equal(page.has_more, false);
    const model = await client.models.retrieve('demo');
    assert.deepEqual([model.display_name, model.max_input_tokens], ['demo', 4096]);
    assert.ok(Date.parse(model.created_at) > 0);
  });
});

describe('errors', () => {
  // The error's class, and the type in its body, which must have this dialect's shape.
  async function refused(promise, Class, type) {
    const error = await promise.then(() => assert.fail('it was taken'), (reason) => reason);
    assert.ok(error instanceof Class, `${error}`);
    assert.deepEqual([error.error?.type, error.error?.error?.type, error.type], ['error', type, type]);
    assert.ok(error.requestID);
    assert.equal(error.error.request_id, error.requestID);
  }

  test('400, 401, 404, 413 and 429 have the classes and types that programs catch', async () => {
    for (const stream of [false, true]) {
      await refused(create({ stream, messages: [] }), Anthropic.BadRequestError, 'invalid_request_error');
      await refused(create({ stream, model: 'claude' }), Anthropic.NotFoundError, 'not_found_error');
    }
    const long = create({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] });
    await refused(long, Anthropic.BadRequestError, 'invalid_request_error');
    const stranger = client.withOptions({ apiKey: 'wrong' });
    await refused(stranger.models.list(), Anthropic.AuthenticationError, 'authentication_error');
    await refused(stranger.messages.create(request()), Anthropic.AuthenticationError, 'authentication_error');
    const huge = create({ messages: [{ role: 'user', content: 'word '.repeat(300_000) }] });
    await refused(huge, Anthropic.APIError, 'request_too_large');
    const small = await Server.start('--context', '4096', '--slots', '1', '--max-queue', '0');
    try {
      const busy = new Anthropic({ baseURL: small.url, apiKey: 'none', maxRetries: 0 });
      const stream = await busy.messages.create({ ...request(), max_tokens: 3000, ignore_eos: true, stream: true });
      await refused(busy.messages.create(request()), Anthropic.RateLimitError, 'rate_limit_error');
      stream.controller.abort();
    } finally {
      await small.stop();
    }
  });
});

describe('aborts', () => {
  test('an abort in mid-stream frees the slot', async () => {
    const stream = client.messages.stream(request({ max_tokens: 3500, ignore_eos: true }));
    stream.once('text', () => stream.abort());
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    await eventually(() => server.isIdle());
  });
});
