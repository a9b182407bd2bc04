// Entry point of the DNS thread: opens the sockets and answers. A thread of its own, so that a flood of queries holds up
// nothing else.

import { parentPort, workerData } from 'node:worker_threads';
import { type AnswerQuery, answersFrom } from '../answer-query.ts';
import { servedZones } from '../served-zones.ts';
import { DnsEndpoints } from './dns-endpoints.ts';
import { type DnsStart, type FromDns, NOT_ANSWERED, type ToDns } from './dns-messages.ts';

/** The largest message. */
const SCRATCH_BYTES = 65_535;
/** Whoever finds a query that makes our code throw will send it again and again. */
const FAULT_EVERY_MS = 1000;

const start = workerData as DnsStart;
const counts = new Float64Array(start.counts);
let current = answersFrom(servedZones(start.names));

const send = (message: FromDns) => parentPort?.postMessage(message);

let lastFault = -FAULT_EVERY_MS;

/** One query never ends the thread. */
const answer: AnswerQuery = (...query) => {
  try {
    const answered = current(...query);
    counts[answered.length === 0 ? NOT_ANSWERED : answered.rcode]++;
    return answered;
  } catch (error) {
    counts[NOT_ANSWERED]++;
    if (performance.now() - lastFault >= FAULT_EVERY_MS) {
      lastFault = performance.now();
      send({ kind: 'fault', message: String((error as Error).stack ?? error) });
    }
    return { length: 0, rcode: 0 };
  }
};

const { on, isShared, isTaken } = start;
const onTrouble = (address: string, error: Error) =>
  send({ kind: 'trouble', address, message: error.message });
try {
  const endpoints = await DnsEndpoints.open(
    { on, isShared, isTaken, onTrouble },
    { answer, scratch: Buffer.alloc(SCRATCH_BYTES) },
  );
  parentPort?.on('message', (message: ToDns) => {
    if (message.kind === 'names') current = answersFrom(servedZones(message.names));
    else {
      endpoints[Symbol.dispose]();
      parentPort?.close();
    }
  });
  send({ kind: 'listening', addresses: endpoints.addresses });
} catch (error) {
  const { code = '', message } = error as NodeJS.ErrnoException;
  send({ kind: 'failed', code, message });
}
