// Ten replacements under load, with a load generator in C: 1,000 new connections a second, 1,000 tunnels that ping, and
// tunnels that carry bytes in both directions. None is refused, none is reset, no byte is lost.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openBed } from '../../bench/bed.ts';
import { startLoad } from '../../bench/load-generator.ts';
import { renderCauseway } from '../../bench/peers/causeway.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const REPLACEMENTS = 10;
const TUNNELS = 1000;
const RATE = 1000;

test('ten replacements under load lose nothing', async () => {
  await using stack = new AsyncDisposableStack();
  const bed = stack.use(await openBed());
  const dir = stack.use(await tempDir());
  const config = renderCauseway({ hosts: 10, added: [], ports: bed.ports });
  const start = async (...args: readonly string[]): Promise<Causeway> =>
    stack.use(await startCauseway({ config, args: ['--run-dir', join(dir.path, 'run'), ...args] }));
  const gateways = [await start()];
  const { port } = gateways[0];
  const peer = {
    port: () => port,
    processes: async () => [],
    [Symbol.asyncDispose]: async () => {},
  };
  const load = await startLoad(bed, peer, {
    flood: 500,
    rate: RATE,
    hosts: 10,
    pings: TUNNELS,
    every: 1,
    down: 1,
    up: 1,
  });
  await load.running;
  for (let i = 0; i < REPLACEMENTS; i++) {
    const next = await start('--replace');
    assert.equal(next.port, port);
    gateways.push(next);
  }
  load.end();
  const { errors, connections, pings } = await load.result;
  // A busy machine may make answers late.
  const broken = Object.entries(errors).filter(([kind, count]) => kind !== 'late' && count > 0);
  assert.deepEqual(broken, []);
  assert.ok(connections > RATE && pings > TUNNELS, `${connections} connections, ${pings} pings`);
  for (const old of gateways.slice(0, -1)) {
    assert.deepEqual(await old.program.ended, { code: 0, signal: null });
    const refused = old.connections().filter(({ reason }) => reason !== 'done' && reason !== 'client-gone');
    assert.deepEqual(refused, []);
  }
});
