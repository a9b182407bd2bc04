// A small byte-exactness campaign; `npm run campaign` runs larger ones.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCampaign } from './campaign.ts';
import { planTunnel } from './campaign-plan.ts';

const TUNNELS = Number(process.env.CAMPAIGN_TUNNELS ?? 1_500);
const SEED = Number(process.env.CAMPAIGN_SEED ?? 1);
const AT_ONCE = 2_000;
/** Enough for a busy machine. */
const MS_PER_TUNNEL = 60;

test(`every byte of ${TUNNELS} tunnels arrives in order`, {
  timeout: 600_000 + TUNNELS * MS_PER_TUNNEL,
}, async context => {
  const { engine, seconds, bytes, resets, faults } = await runCampaign({
    seed: SEED,
    tunnels: TUNNELS,
    atOnce: AT_ONCE,
  });
  context.diagnostic(
    `${engine}: ${(bytes / 2 ** 20).toFixed(0)} MiB in ${seconds.toFixed(1)} s, ${resets} tunnels reset`,
  );
  assert.deepEqual(faults, [], `seed ${SEED}`);
  assert.ok(bytes > TUNNELS * 1000);
});

test('planTunnel() is deterministic for a seed, and covers every case', () => {
  const plans = Array.from({ length: 500 }, (_, number) => planTunnel(7, number));
  assert.deepEqual(
    plans,
    plans.map(({ number }) => planTunnel(7, number)),
  );
  assert.notDeepEqual(planTunnel(8, 0), plans[0]);
  for (const ending of ['together', 'client-first', 'backend-first', 'client-reset', 'backend-reset'])
    assert.ok(
      plans.some(plan => plan.ending === ending),
      ending,
    );
  for (const way of ['sni', 'proxied', 'connect'])
    assert.ok(
      plans.some(plan => plan.way === way),
      way,
    );
  const sides = plans.flatMap(({ client, backend }) => [client, backend]);
  assert.ok(sides.some(({ bytes }) => bytes === 0));
  assert.ok(sides.some(({ bytes }) => bytes > 1_000_000));
  assert.ok(sides.some(({ stopMs }) => stopMs > 0));
});
