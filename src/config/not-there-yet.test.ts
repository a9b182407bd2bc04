import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notThereYet } from './not-there-yet.ts';
import { readConfig } from './read-config.ts';

function used(text: string): readonly string[] {
  const result = readConfig(`listen: [":6443"]\n${text}`, 'causeway.yaml');
  assert.ok(result.ok, JSON.stringify(result));
  return notThereYet(result.config);
}

test('notThereYet() is empty for a plain file', () => {
  const plain = `
identity: { secretFile: ./secret, required: true }
tunnel: { hosts: [t.example.com], certificates: [{ certFile: ./a, keyFile: ./b }] }
engine: net
clusters:
  - name: a
    api: { hosts: [a.example.com], backends: [192.0.2.1:6443], health: { check: none } }
    apps: { hosts: ["*.a.example.com"], https: [192.0.2.1:443] }
`;
  assert.deepEqual(used(plain), []);
});

test('notThereYet() refuses missing features that would change who reaches what', () => {
  const refused = used(`
sources: [{ directory: { path: ./clusters } }]
outputs: [{ dnsServer: { on: ":53", addresses: [192.0.2.1] } }, { dnsServer: { on: ":54", addresses: [192.0.2.1] } }]
engine: haproxy
`);
  assert.deepEqual(refused, ["the output 'dnsServer'", 'engine: haproxy']);
  assert.deepEqual(used('engine: haproxy'), ['engine: haproxy']);
});
