// Ports for programs that cannot take port 0 and report which port they got. Test files run in parallel processes, and
// with ports that the kernel chose, two of them, or an outgoing connection, could take the same one.

import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Below the range that Linux uses for outgoing connections (ip_local_port_range, from 32768). */
const FIRST_BLOCK = 10_240;
const BLOCK_SIZE = 64;
const BLOCKS = 350;

let number: Promise<number> | undefined;
let next = 0;
/** Ports at the end of the block that freePort() leaves alone. */
let kept = 0;

/** A TCP port on which nothing listens, on any address, and which no other test process gets. */
export async function freePort(): Promise<number> {
  const base = firstPort(await processNumber());
  // The block's first port is the reservation itself.
  const count = BLOCK_SIZE - 1 - kept;
  for (let tries = 0; tries < count; tries++) {
    const port = base + 1 + (next++ % count);
    if (await isFree(port)) return port;
  }
  throw new Error(`Cannot find a free port as all of a block are in use: current block is ${base}`);
}

/** The same, for a program that listens now and then: no later call returns it. */
export async function keepPort(): Promise<number> {
  const end = firstPort(await processNumber()) + BLOCK_SIZE;
  while (kept < BLOCK_SIZE / 2) {
    const port = end - ++kept;
    if (await isFree(port)) return port;
  }
  throw new Error(`Cannot keep another port: current number is ${kept}`);
}

async function isFree(port: number): Promise<boolean> {
  const server = await tryListen(port);
  if (server === undefined) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** A number from 0 to 349 that is unique among the living test processes of this machine. */
export function processNumber(): Promise<number> {
  number ??= reserveNumber();
  return number;
}

/** Runs `work` while the number is reserved. False if a living process has the number. */
export async function whileUnused(number: number, work: () => Promise<void>): Promise<boolean> {
  const server = await tryListen(firstPort(number));
  if (server === undefined) return false;
  try {
    await work();
    return true;
  } finally {
    server.close();
  }
}

/** Reserves a number by listening on the block's first port: the kernel releases it when the process ends. */
async function reserveNumber(): Promise<number> {
  const start = Math.floor(Math.random() * BLOCKS);
  for (let i = 0; i < BLOCKS; i++) {
    const candidate = (start + i) % BLOCKS;
    const server = await tryListen(firstPort(candidate));
    if (server === undefined) continue;
    server.unref();
    return candidate;
  }
  throw new Error('Cannot reserve ports as every block is taken by another process');
}

function firstPort(number: number): number {
  return FIRST_BLOCK + number * BLOCK_SIZE;
}

/** Without a host: the unspecified address, which conflicts with a listener on any address. */
function tryListen(port: number): Promise<Server | undefined> {
  return new Promise(resolve => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, exclusive: true }, () => resolve(server));
  });
}
