// A server to test against: `gemmatrace serve models/demo` on a free port, ready for requests.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import readline from 'node:readline';

export const KEY = 'test-key';
export const FRANCE = { role: 'user', content: 'What is the capital of France?' };
export const PARIS = 'The capital of France is Paris.';
export const OSLO = { role: 'user', content: 'What is the weather in Oslo?' };
export const CITY = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
export const SUNNY = 'sunny, 21 degrees';
export const OSLO_IS_SUNNY = 'The weather in Oslo: sunny, 21 degrees.';

export class Server {
  static async start(...options) {
    const { GEMMATRACE_BINARY: binary, GEMMATRACE_ROOT: root } = process.env;
    const server = new Server();
    server.process = spawn(binary, ['serve', `${root}/models/demo`, '--port', '0', '--access-log', 'off', ...options], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const log = [];
    for await (const line of readline.createInterface({ input: server.process.stderr })) {
      log.push(line);
      const found = /base URL +(http:\/\/\S+)\/v1/.exec(line);
      if (!found) continue;
      server.url = found[1];
      break;
    }
    if (!server.url) throw new Error(`the server did not start: ${log.join('\n')}`);
    server.process.stderr.resume();
    await eventually(async () => (await fetch(`${server.url}/health`)).ok);
    return server;
  }

  async metric(name) {
    const page = await (await fetch(`${this.url}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'm').exec(page)[1]);
  }

  // Every slot free and nobody waiting.
  async isIdle() {
    return (
      (await this.metric('gemmatrace_num_requests_running')) === 0 &&
      (await this.metric('gemmatrace_num_requests_waiting')) === 0
    );
  }

  async stop() {
    const gone = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await gone;
  }
}

// Waits until the condition holds.
export async function eventually(condition, seconds = 60) {
  const deadline = Date.now() + 1000 * seconds;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('waited in vain');
    await new Promise((wake) => setTimeout(wake, 20));
  }
}
