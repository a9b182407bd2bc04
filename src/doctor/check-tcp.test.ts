import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Report } from './check.ts';
import { checkTcp } from './check-tcp.ts';
import { sampleConfig, sampleNetwork, samplePlaces } from './doctor.samples.ts';
import type { NoConnection } from './network.ts';

const places = samplePlaces(sampleConfig('listen: [":6443", ":443"]'));

for (const [why, code] of [
  ['refused', 'TcpRefused'],
  ['reset', 'TcpRefused'],
  ['timeout', 'TcpTimeout'],
  ['unreachable', 'TcpUnreachable'],
] as const satisfies readonly (readonly [NoConnection['why'], string])[]) {
  test(`checkTcp() names a listener that is ${why}, and goes on with the other`, async () => {
    const report = new Report(null);
    const network = sampleNetwork({
      dial: async ({ port }) =>
        port === 443 ? { ok: false, why, text: 'why' } : { ok: true, local: '192.0.2.2' },
    });
    const reached = await checkTcp(places, network, report);
    assert.deepEqual([...reached], [places.all[0]]);
    assert.deepEqual(
      report.checks.map(check => check.code),
      ['Ok', code],
    );
    assert.match(report.checks[1].text, /192\.0\.2\.1:443/);
  });
}
