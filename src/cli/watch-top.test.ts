import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { ReadStream, WriteStream } from 'node:tty';
import { AdminClientError } from './admin-client.ts';
import { sample, sampleCluster } from './top.samples.ts';
import type { Sample } from './top-figures.ts';
import { watchTop } from './watch-top.ts';

/** A terminal of 60 × 10 in which `causeway top` runs; each `turn()` is one more answer. */
function given(answers: () => Sample) {
  const stop = new AbortController();
  const raw: boolean[] = [];
  const input = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (on: boolean) => void raw.push(on),
  });
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 60, rows: 10 });
  let written = '';
  output.setEncoding('latin1').on('data', text => (written += text));
  const steps: PromiseWithResolvers<void>[] = [];
  let suspended = 0;
  const done = watchTop({
    first: answers(),
    sort: 'open',
    problems: false,
    input: input as unknown as ReadStream,
    output: output as unknown as WriteStream,
    signal: stop.signal,
    take: async () => answers(),
    paint: (_, text) => text,
    suspend: () => void suspended++,
    end: () => stop.abort(),
    wait() {
      const step = Promise.withResolvers<void>();
      stop.signal.addEventListener('abort', () => step.resolve());
      steps.push(step);
      return step.promise;
    },
  });
  /** What was written since the last call. */
  const screen = async () => {
    await new Promise(setImmediate);
    const text = written;
    written = '';
    return text;
  };
  return {
    done,
    raw,
    screen,
    output,
    stop,
    suspensions: () => suspended,
    key: (text: string) => void input.write(text),
    turn: () => steps.at(-1)?.resolve(),
  };
}

const clusters = Array.from({ length: 20 }, (_, i) => sampleCluster(`t-${i}`));

test('watchTop() takes the screen, draws, and gives it back', async () => {
  const top = given(() => sample(0, clusters));
  const first = await top.screen();
  assert.ok(first.startsWith('\x1b[?1049h\x1b[?25l'));
  assert.match(first, /causeway 0\.1\.0/);
  assert.deepEqual(top.raw, [true]);
  top.key('q');
  await top.done;
  assert.ok((await top.screen()).endsWith('\x1b[?25h\x1b[?1049l'));
  assert.deepEqual(top.raw, [true, false]);
});

test('watchTop() ends with Ctrl-C, with the signal, and when the terminal is gone', async () => {
  for (const end of [
    (top: ReturnType<typeof given>) => top.key('\x03'),
    (top: ReturnType<typeof given>) => top.stop.abort(),
    (top: ReturnType<typeof given>) => void top.output.emit('error', new Error('EIO')),
  ]) {
    const top = given(() => sample(0, clusters));
    await top.screen();
    end(top);
    await top.done;
    assert.deepEqual(top.raw, [true, false]);
  }
});

test('watchTop() sorts and scrolls by keys, several at once too', async () => {
  const top = given(() => sample(0, clusters));
  await top.screen();
  top.key('a');
  assert.match(await top.screen(), /cluster.*\r\nt-0 /s);
  top.key('\x1b[B\x1b[B');
  assert.match(await top.screen(), /open +new[^\r]*\r\nt-2 /);
  top.key('G');
  assert.match(await top.screen(), /t-19 /);
  top.key('g');
  assert.match(await top.screen(), /open +new[^\r]*\r\nt-0 /);
  top.key('\x1b[99;99u?');
  top.key('q');
  await top.done;
});

test('watchTop() draws anew when the size changes and after Ctrl-Z', async () => {
  const top = given(() => sample(0, clusters));
  await top.screen();
  top.output.rows = 4;
  top.output.emit('resize');
  assert.equal((await top.screen()).split('\r\n').length, 4);
  top.key('\x1a');
  const text = await top.screen();
  assert.equal(top.suspensions(), 1);
  assert.ok(text.includes('\x1b[?1049l\x1b[?1049h'));
  assert.deepEqual(top.raw, [true, false, true]);
  top.key('q');
  await top.done;
});

test('watchTop() says that the gateway is gone, and goes on when it is back', async () => {
  let at = 0;
  let isThere = true;
  const top = given(() => {
    if (!isThere) throw new AdminClientError('Nothing listens on http://127.0.0.1:9440');
    return sample(at, clusters);
  });
  await top.screen();
  isThere = false;
  top.turn();
  assert.match(await top.screen(), /No answer for .*, retrying: Nothing listens/);
  isThere = true;
  at = 5000;
  top.turn();
  const back = await top.screen();
  assert.doesNotMatch(back, /No answer/);
  assert.match(back, /up 10 min 5 s/);
  top.key('q');
  await top.done;
});

test('watchTop() leaves the terminal as it was when something of ours fails', async () => {
  let calls = 0;
  const top = given(() => {
    if (calls++ > 0) throw new TypeError('a defect');
    return sample(0, clusters);
  });
  await top.screen();
  top.turn();
  await assert.rejects(top.done, /a defect/);
  assert.deepEqual(top.raw, [true, false]);
  assert.ok((await top.screen()).endsWith('\x1b[?1049l'));
});
