// `npm run campaign -- --tunnels 10000 --seed 7 --engine epoll`: the byte-exactness campaign (test/interop/campaign.ts)
// in any size. Exits with 1 if a byte, an end or a count was wrong, and prints the tunnel and its plan.

import { parseArgs } from 'node:util';
import { runCampaign } from '../test/interop/campaign.ts';

/** One progress line per tenth. */
const STEPS = 10;

const { values } = parseArgs({
  options: {
    tunnels: { type: 'string', default: '10000' },
    'at-once': { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
    /** epoll or net; default: the gateway's choice. */
    engine: { type: 'string' },
  },
});
if (values.engine !== undefined) process.env.CAUSEWAY_TEST_ENGINE = values.engine;
const [tunnels, atOnce, seed] = [values.tunnels, values['at-once'], values.seed].map(wholeNumber);

const { engine, seconds, bytes, resets, faults } = await runCampaign({
  tunnels,
  atOnce,
  seed,
  onProgress: ended => {
    if (ended % Math.ceil(tunnels / STEPS) === 0) process.stderr.write(`${ended} of ${tunnels} tunnels\n`);
  },
});
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.stdout.write(
  `${engine}, seed ${seed}: ${tunnels} tunnels, at most ${atOnce} at once, ${resets} of them reset; ` +
    `${(bytes / 2 ** 20).toFixed(0)} MiB in ${seconds.toFixed(1)} s; ${faults.length} faults\n`,
);
process.exitCode = faults.length === 0 ? 0 : 1;

function wholeNumber(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  process.stderr.write(`Not a whole number: ${text}\n`);
  process.exit(64);
}
