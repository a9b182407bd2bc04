import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type NotThereYet, notThereYet } from './not-there-yet.ts';
import { readConfig } from './read-config.ts';

function used(text: string): NotThereYet {
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
  assert.deepEqual(used(plain), { refused: [], ignored: [] });
});

test('notThereYet() refuses missing features that would change who reaches what', () => {
  const { refused, ignored } = used(`
sources: [{ directory: { path: ./clusters } }]
outputs: [{ ingress: {} }]
engine: haproxy
`);
  assert.deepEqual(refused, [
    'clusters from Kubernetes or a directory (sources)',
    'objects in Kubernetes and DNS (outputs)',
    'engine: haproxy',
  ]);
  assert.deepEqual(ignored, []);
  assert.deepEqual(used('engine: haproxy').refused, ['engine: haproxy']);
});

test('notThereYet() lists as ignored what is safe to serve without', () => {
  const { refused, ignored } = used(`
stateDir: /var/lib/causeway
lease: { name: a, namespace: b }
statusAnnotation: false
clusters:
  - name: a
    api: { hosts: [a.example.com], backends: [192.0.2.1:6443], health: { every: 1s } }
    apps: { hosts: ["*.a.example.com"], http: redirect }
`);
  assert.deepEqual(refused, []);
  assert.deepEqual(ignored, [
    'the saved table (stateDir)',
    'the lease of the writing replica (lease)',
    'status written back to Kubernetes (statusAnnotation)',
  ]);
});
