// How the log, the events, the list of connections and the command line show untrusted input: as text, never as
// control characters for a terminal.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { ask, Events } from './ask-admin.ts';
import { supports } from './engine.ts';
import { connectClient, hello, lineOf, proxyV2, until, visit } from './given.ts';

/** C0 except the line feed, DEL, C1, separators, direction controls. */
const CONTROL = /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029]/u;
/** As bytes: C1 if read as latin1, a direction override if read as UTF-8. */
const EVIL_ID = Buffer.from(
  'id\x1b[2J\n{"level":"info","msg":"ready"}\x9b1m\x7f\u202e\u2028',
  'utf8',
).toString('latin1');

const config = (more = '') => `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.0/8] }]
${more}
clusters: [{ name: lab, id: lab-1, api: { hosts: [api.lab.test], backends: ["127.0.0.1:9"] } }]
`;

describe('an invalid cluster id', () => {
  let gateway: Causeway;
  before(async () => {
    gateway = await startCauseway({ config: config() });
  });
  after(() => gateway[Symbol.asyncDispose]());

  for (const [what, id] of [
    ['with control characters', EVIL_ID],
    ['with a space', 'lab 1'],
    ['that is too long', 'x'.repeat(129)],
    ['far longer than a log line', 'x'.repeat(3000)],
    ['that is empty', ''],
  ] as const) {
    test(`${what} is invalid in the log and in events, with its length`, async () => {
      using events = await Events.open(gateway);
      const client = await visit(gateway.port, Buffer.concat([proxyV2({ id }), hello('')]));
      const reported = `invalid (${id.length} bytes)`;
      const line = await lineOf(gateway, client);
      assert.deepEqual([line.clusterId, line.reason], [reported, 'unknown-cluster']);
      const event = await events.event('refusal', ({ peer }) => peer === client.address);
      assert.equal(event.clusterId, reported);
    });
  }

  if (supports('openDetails')) {
    test('is listed as invalid while the connection is open', async () => {
      using client = await connectClient(gateway.port);
      client.send(proxyV2({ id: EVIL_ID }));
      const listed = await until('the connection', async () => {
        const { body, json } = await ask(gateway, '/api/v1/connections');
        assert.doesNotMatch(body, CONTROL);
        return json.find(
          ({ peer, clusterId }: Record<string, string | null>) =>
            peer === client.address && clusterId !== null,
        );
      });
      assert.equal(listed.clusterId, `invalid (${EVIL_ID.length} bytes)`);
    });
  }

  test('leaves no control characters in the log', () => {
    assert.ok(gateway.lines().length > 5);
    assert.doesNotMatch(gateway.program.log(), CONTROL);
  });
});

test('the text format escapes control characters of clients and files', async () => {
  const text = 'log: { format: text }';
  // The starter needs JSON until it is ready.
  await using gateway = await startCauseway({ config: config() });
  await gateway.write(config(text));
  await gateway.program.logged(/ applied /);
  await visit(gateway.port, Buffer.concat([proxyV2({ id: EVIL_ID }), hello('')]));
  await gateway.program.logged(/unknown-cluster .* invalid \(\d+ bytes\)/);
  await gateway.write(`${config(text)}"evil\\e[2J\\u202e\\nkey": 1\n`);
  await gateway.program.logged(/file refused/);
  await gateway.program.logged(/causeway\.yaml:\d+:\d+: .*evil\\u001b\[2J\\u202e\\nkey/);
  assert.doesNotMatch(gateway.program.log(), CONTROL);
});

test('every dropped line is counted, even if the count itself cannot be written', async () => {
  await using dir = await tempDir();
  const file = dir.file('causeway.yaml');
  // Long lines, for requests that need no backend.
  const host = `${'x'.repeat(63)}.`.repeat(3).concat('x'.repeat(50), '.test');
  await writeFile(
    file,
    `listen: ["127.0.0.1:0"]\nadmin: { on: "127.0.0.1:0" }\nclusters: [{ name: lab, apps: { hosts: [${host}], http: redirect } }]\n`,
  );
  await using gateway = await startUnread(file);
  const asked = 32_000;
  await askOften(gateway.port, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`, asked);
  const counted = async () => {
    const text = await (await fetch(`${gateway.admin}/metrics`)).text();
    return Number(/^causeway_requests_total\{.*code="308"\} (\d+)$/m.exec(text)?.[1]) === asked;
  };
  await until('the last request', counted, 60_000);
  // Now the pipe is full, and the line with the count, tried every second, does not fit either.
  await delay(2500);
  gateway.read();
  const seen = () => {
    const lines = gateway.lines();
    const written = lines.filter(({ msg }) => msg === 'request' || msg === 'connection').length;
    const dropped = lines.filter(({ msg }) => msg === 'dropped').map(({ count }) => Number(count));
    return { written, dropped: dropped.reduce((sum, count) => sum + count, 0) };
  };
  const lines = asked + CLIENTS;
  await until('all to be accounted for', () => seen().written + seen().dropped >= lines);
  assert.ok(seen().dropped > 0, 'the log was full');
  assert.equal(seen().written + seen().dropped, lines);
});

const CLIENTS = 8;

/** Sends this many requests without a body over a few connections, a few at a time. */
async function askOften(port: number, request: string, count: number): Promise<void> {
  const atOnce = 8;
  const ask = async () => {
    using client = await connectClient(port);
    let answered = 0;
    let last = '';
    client.socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
      // The end of a response's head may be split.
      const text = last + chunk.toString('latin1');
      answered += text.split('\r\n\r\n').length - 1;
      last = text.slice(-3);
    });
    for (let sent = 0; sent < count / CLIENTS; sent += atOnce) {
      client.send(request.repeat(atOnce));
      const isAnswered = () => answered >= sent + atOnce;
      while (!isAnswered()) await once(client.socket, 'data');
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, ask));
}

/** `causeway run`; after `ready` its log is not read until read() is called. */
async function startUnread(file: string) {
  const args = ['run', '-c', file, '--engine', process.env.CAUSEWAY_TEST_ENGINE ?? 'auto'];
  const child = spawn(causewayBin, args, {
    env: { ...process.env, TMPDIR: dirname(file) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const lines = () =>
    text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line) as LogLine);
  const ready = await until('ready', () => lines().find(({ msg }) => msg === 'ready'));
  child.stdout.pause();
  return {
    port: Number(
      String((ready.listen as string[])[0])
        .split(':')
        .at(-1),
    ),
    admin: String(ready.admin),
    lines,
    read: () => void child.stdout.resume(),
    async [Symbol.asyncDispose]() {
      child.stdout.resume();
      child.kill('SIGTERM');
      child.kill('SIGINT');
      await ended;
    },
  };
}

describe('the command line', { concurrency: true }, () => {
  const evil = 'evil\x1b[2J\x9b1m\u202e\r\nsecond';

  for (const [what, args] of [
    ['a command', [evil]],
    ['a flag', ['run', `--${evil}`]],
    ['the name of a file', ['check', '-c', `${evil}.yaml`]],
    ['the name of a file that is served', ['run', '-c', `${evil}.yaml`]],
    ['a value', ['run', '-c', 'x', '--workers', evil]],
    ['an address of the admin side', ['status', '--admin', evil]],
    ['the name of a secret file', ['identity', 'key', '--secret-file', evil, '--cluster-id', 'x']],
    ['the flags of an agent', ['agent', '--uplink', evil, '--on', evil]],
  ] as const) {
    test(`${what} is escaped`, async () => {
      const { code, stdout, stderr } = await run(causewayBin, args);
      assert.notEqual(code, 0);
      assert.doesNotMatch(`${stdout}${stderr}`, CONTROL);
      assert.doesNotMatch(stderr, /^second/m);
      assert.match(stderr, /evil\\u001b\[2J\\u009b1m/);
    });
  }

  test('input of explain and findings of check are escaped', async () => {
    await using dir = await tempDir();
    const file = dir.file('causeway.yaml');
    await writeFile(file, config());
    for (const json of [[], ['--json']]) {
      const asked = await run(causewayBin, ['explain', '-c', file, evil, ...json]);
      assert.equal(asked.code, 1);
      assert.doesNotMatch(`${asked.stdout}${asked.stderr}`, CONTROL);
    }
    const bad = dir.file('bad\u009b.yaml');
    await writeFile(bad, 'listen: ["\\e[2J\\x9b\\u202e"]\n"a\\e\\x9b\\u202e": 1\n');
    for (const json of [[], ['--json']]) {
      const checked = await run(causewayBin, ['check', '-c', bad, ...json]);
      assert.equal(checked.code, 1);
      assert.doesNotMatch(`${checked.stdout}${checked.stderr}`, CONTROL);
    }
  });
});
