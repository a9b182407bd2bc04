// A cache of builds (Go and Java programs) that are kept between runs, outside the tree, keyed by a hash of their pins.
//
// A result appears by one rename, so it is complete or absent, and an interrupted build leaves only a directory that
// the next one removes. The lock only saves work: two builds at once would do no harm.

import { createHash, randomUUID } from 'node:crypto';
import {
  link,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The holder of a lock touches it every few seconds. On the same host its process id shows sooner whether it lives. */
const HEARTBEAT_MS = 5_000;
const DEAD_AFTER_MS = 60_000;
const POLL_MS = 100;
/** How often a running build is reported. */
const PROGRESS_MS = 10_000;

/** A string is hashed as it is; a URL names a file or a directory, whose content is hashed. */
type Pin = string | URL;

export interface Recipe {
  readonly pins: readonly Pin[];
  /** Fills the directory. `progress` takes a few words on the current step. */
  readonly build: (directory: string, progress: (text: string) => void) => Promise<void>;
}

export interface CacheOptions {
  readonly root?: string;
  readonly say?: (line: string) => void;
}

const inThisProcess = new Map<string, Promise<string>>();

/** The directory with the result of a recipe, built if it is not there yet. Read-only. */
export async function built(name: string, recipe: Recipe, options: CacheOptions = {}): Promise<string> {
  const { root = cacheRoot(), say = line => void process.stderr.write(`${line}\n`) } = options;
  const target = join(root, `${name}-${await hashPins(recipe.pins)}`);
  const running = inThisProcess.get(target);
  if (running !== undefined) return running;
  const result = ensure(name, target, recipe, say).finally(() => inThisProcess.delete(target));
  inThisProcess.set(target, result);
  return result;
}

/** `$CAUSEWAY_TESTBED_CACHE`, else `causeway-testbed` in the user's cache directory (XDG Base Directory). */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  if (env.CAUSEWAY_TESTBED_CACHE) return env.CAUSEWAY_TESTBED_CACHE;
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'causeway-testbed');
}

async function ensure(
  name: string,
  target: string,
  recipe: Recipe,
  say: (line: string) => void,
): Promise<string> {
  await mkdir(dirname(target), { recursive: true });
  let reported = false;
  while (!(await exists(target))) {
    const lock = await takeLock(`${target}.lock`);
    if (lock === undefined) {
      if (!reported) say(`testbed: ${name}: waiting for another process that builds it`);
      reported = true;
      await delay(POLL_MS);
      continue;
    }
    try {
      // The previous holder may have finished between our check and our lock.
      if (!(await exists(target))) await buildInto(name, target, recipe, say);
    } finally {
      await lock[Symbol.asyncDispose]();
    }
  }
  return target;
}

async function buildInto(
  name: string,
  target: string,
  recipe: Recipe,
  say: (line: string) => void,
): Promise<void> {
  const started = performance.now();
  const report = (text: string) =>
    say(`testbed: ${name}: ${text} (${Math.round((performance.now() - started) / 1000)} s)`);
  let current = 'building';
  const ticker = setInterval(() => report(current), PROGRESS_MS);
  await removeUnfinished(target);
  const unfinished = `${target}.unfinished-${randomUUID()}`;
  await mkdir(unfinished);
  report(current);
  try {
    await recipe.build(unfinished, text => {
      current = text;
      report(text);
    });
    await rename(unfinished, target);
    report('built');
  } catch (cause) {
    await rm(unfinished, { recursive: true, force: true });
    // Two builds ran at once because a living holder was taken for dead. The first result stays.
    if (!(await exists(target)))
      throw new Error(`Cannot build ${name}: ${(cause as Error).message}`, { cause });
  } finally {
    clearInterval(ticker);
  }
}

/** Removes what interrupted builds of the same thing left. */
async function removeUnfinished(target: string): Promise<void> {
  const prefix = `${basename(target)}.unfinished-`;
  const leftovers = (await readdir(dirname(target))).filter(entry => entry.startsWith(prefix));
  await Promise.all(
    leftovers.map(entry => rm(join(dirname(target), entry), { recursive: true, force: true })),
  );
}

/** The lock, or undefined while a living process has it. One link(2) creates it with its owner's name in it. */
async function takeLock(path: string): Promise<AsyncDisposable | undefined> {
  const own = `${path}-${randomUUID()}`;
  await writeFile(own, `${process.pid} ${hostname()}`);
  try {
    await link(own, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    await removeIfDead(path);
    return undefined;
  } finally {
    await unlink(own);
  }
  const heartbeat = setInterval(
    () => void utimes(path, new Date(), new Date()).catch(() => {}),
    HEARTBEAT_MS,
  );
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(heartbeat);
      await rm(path, { force: true });
    },
  };
}

async function removeIfDead(path: string): Promise<void> {
  try {
    const owner = await readFile(path, 'utf8');
    const [pid, host] = owner.split(' ');
    const silentMs = Date.now() - (await stat(path)).mtimeMs;
    if (silentMs < DEAD_AFTER_MS && !(host === hostname() && !isAlive(Number(pid)))) return;
    await rm(path, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error; // released meanwhile
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function hashPins(pins: readonly Pin[]): Promise<string> {
  const hash = createHash('sha256');
  const add = (label: string, content: string | Buffer) =>
    hash.update(`${label}\0${content.length}\0`).update(content);
  add('machine', `${process.platform}-${process.arch}`);
  for (const pin of pins) {
    if (typeof pin === 'string') add('text', pin);
    else for (const file of await filesOf(fileURLToPath(pin))) add(file.name, await readFile(file.path));
  }
  return hash.digest('hex').slice(0, 16);
}

async function filesOf(path: string): Promise<{ name: string; path: string }[]> {
  if (!(await stat(path)).isDirectory()) return [{ name: basename(path), path }];
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .toSorted()
    .map(file => ({ name: file.slice(path.length), path: file }));
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
