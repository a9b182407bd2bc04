import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandsBetween, filesOf, type RuntimeState } from './runtime-state.ts';

const state = (parts: Partial<RuntimeState>): RuntimeState => ({
  maps: new Map(),
  lists: new Map(),
  servers: new Map(),
  ...parts,
});
const path = (file: string) => `/dir/${file}`;

test('commandsBetween() brings servers before names, and takes them away after', () => {
  const before = state({
    maps: new Map([['hosts.map', new Map([['old.test', 'b1/1/1/api']])]]),
    lists: new Map([['b1.cluster.acl', ['10.0.0.0/8']]]),
    servers: new Map([['b1/s1', { address: '192.0.2.1', port: 1, isUp: true }]]),
  });
  const after = state({
    maps: new Map([['hosts.map', new Map([['new.test', 'b2/2/2/api']])]]),
    lists: new Map([['b1.cluster.acl', ['192.0.2.0/24']]]),
    servers: new Map([['b2/s1', { address: '192.0.2.2', port: 2, isUp: true }]]),
  });
  assert.deepEqual(commandsBetween(before, after, path), [
    'set server b2/s1 addr 192.0.2.2 port 2',
    'set server b2/s1 state ready',
    'add acl /dir/b1.cluster.acl 192.0.2.0/24',
    'del acl /dir/b1.cluster.acl 10.0.0.0/8',
    'add map /dir/hosts.map new.test b2/2/2/api',
    'del map /dir/hosts.map old.test',
    'set server b1/s1 state maint',
  ]);
  assert.deepEqual(commandsBetween(after, after, path), []);
});

test('commandsBetween() empties an allow list when no name leads to it any more', () => {
  const before = state({
    maps: new Map([['hosts.map', new Map([['a.test', 'guarded/1/1/api']])]]),
    lists: new Map([['guarded.cluster.acl', ['10.0.0.0/8']]]),
  });
  const after = state({ maps: new Map([['hosts.map', new Map([['a.test', 'open/1/1/api']])]]) });
  assert.deepEqual(commandsBetween(before, after, path), [
    'set map /dir/hosts.map a.test open/1/1/api',
    'del acl /dir/guarded.cluster.acl 10.0.0.0/8',
  ]);
});

test('commandsBetween() leaves alone maps that no rule reads: HAProxy does not know them', () => {
  const after = state({
    maps: new Map([
      ['hosts.map', new Map([['a.test', 'b1/1/1/api']])],
      ['ids.map', new Map([['id', 'b1/1/1/api']])],
    ]),
  });
  assert.deepEqual(
    commandsBetween(state({}), after, path, file => file === 'hosts.map'),
    ['add map /dir/hosts.map a.test b1/1/1/api'],
  );
});

test('filesOf() gives a line for each entry', () => {
  const files = filesOf(
    state({
      maps: new Map([['hosts.map', new Map([['a.test', 'x']])]]),
      lists: new Map([['l.acl', ['10.0.0.0/8', '::/0']]]),
    }),
  );
  assert.deepEqual(
    [...files],
    [
      ['hosts.map', 'a.test x\n'],
      ['l.acl', '10.0.0.0/8\n::/0\n'],
    ],
  );
});
