import assert from 'node:assert/strict';
import test from 'node:test';
import { settle, untouchedMappings } from './settle.ts';

const entry = (addresses: string, rights: string, file: string, anonymousKib: number) =>
  `${addresses} ${rights} 00000000 fe:00 ${file === '' ? 0 : 77}                         ${file}
Size:               4096 kB
Rss:                4096 kB
Anonymous:          ${String(anonymousKib).padStart(6)} kB
VmFlags: rd mr mw me
`;

test('untouchedMappings() finds what the kernel can bring back, and nothing else', () => {
  const smaps = [
    entry('00400000-00c00000', 'r--p', '/usr/lib/a b/node', 0),
    entry('00c00000-01000000', 'r-xp', '/usr/lib/a b/node', 0),
    entry('01000000-01100000', 'r--p', '/usr/lib/a b/node', 64),
    entry('01100000-01200000', 'rw-p', '/usr/lib/a b/node', 0),
    entry('7f0000000000-7f0000400000', 'r-xp', '/usr/lib/a b/node', 0),
    entry('7f0000400000-7f0000800000', 'r-xs', '/usr/lib/a b/node', 0),
    entry('7f0001000000-7f0001400000', 'r-xp', '/usr/lib/libc.so.6', 0),
    entry('7f0002000000-7f0002400000', 'r--p', '', 0),
  ].join('');
  assert.deepEqual(untouchedMappings(smaps, '/usr/lib/a b/node'), [
    { from: 0x400000n, bytes: 0x800000n },
    { from: 0xc00000n, bytes: 0x400000n },
    { from: 0x7f0000000000n, bytes: 0x400000n },
  ]);
});

test('settle() leaves a process that works', async () => {
  await settle();
  // Code that has not run before, and code that has.
  assert.equal(new Intl.NumberFormat('en-US').format(1234567.5), '1,234,567.5');
  assert.deepEqual(JSON.parse(JSON.stringify({ a: [1, 'x'] })), { a: [1, 'x'] });
});
