// `engine: haproxy` while clusters come and go: no connection ever reaches the backends of another cluster.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { Backend, connectClient, hello, servedBy, until } from '../features/given.ts';

const cluster = (name: string, backend: string) =>
  `  - { name: ${name}, api: { hosts: [${name}.test], backends: ["${backend}"] } }\n`;

const file = (...clusters: readonly string[]) =>
  `engine: haproxy\nlisten: ["127.0.0.1:0"]\nclusters:\n${clusters.join('')}`;

async function apply(gateway: Causeway, config: string): Promise<void> {
  const before = gateway.lines().filter(({ msg }) => msg === 'applied').length;
  await gateway.write(config);
  await until('the edit', () => gateway.lines().filter(({ msg }) => msg === 'applied').length > before);
}

/** An address where nobody listens. */
async function nowhere(): Promise<string> {
  await using server = createServer().listen(0, '127.0.0.1');
  await until('the port', () => server.listening);
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

describe('clusters that come and go', { skip: missingPrograms('haproxy') }, () => {
  test('a connection that is being dialled again stays with its cluster when another takes its place', async () => {
    await using theirs = await Backend.start({ name: 'theirs' });
    await using gateway = await startCauseway({ config: file(cluster('mine', await nowhere())) });
    using client = await connectClient(gateway.port);
    // HAProxy waits for a second before it dials again.
    client.send(hello('mine.test'));
    await apply(gateway, file(cluster('other', theirs.text)));
    assert.equal(await servedBy(gateway.port, hello('other.test')), 'theirs');
    await client.untilEnd();
    assert.equal(client.received().toString('latin1'), '');
  });

  test('clients that connect all the time reach their own cluster or none', async () => {
    await using a = await Backend.start({ name: 'a' });
    await using b = await Backend.start({ name: 'b' });
    // So many that the commands of one edit are carried out one batch after the other.
    const names = (prefix: string) => Array.from({ length: 150 }, (_, index) => `${prefix}${index}`);
    const clustersOf = (prefix: string, backend: string) => names(prefix).map(name => cluster(name, backend));
    await using gateway = await startCauseway({ config: file(...clustersOf('a', a.text)) });
    const seen = new Map<string, number>();
    const visits = { isOver: false };
    const visitors = ['a0', 'a149', 'b0', 'b149'].map(async name => {
      while (!visits.isOver) {
        const answer = await servedBy(gateway.port, hello(`${name}.test`)).catch(() => 'none');
        const key = `${name[0]} ${answer}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
      }
    });
    for (const [prefix, backend] of [
      ['b', b],
      ['a', a],
      ['b', b],
      ['a', a],
    ] as const)
      await apply(gateway, file(...clustersOf(prefix, backend.text)));
    visits.isOver = true;
    await Promise.all(visitors);
    assert.ok((seen.get('a a') ?? 0) > 0);
    assert.equal(seen.get('a b') ?? 0, 0);
    assert.equal(seen.get('b a') ?? 0, 0);
  });
});
