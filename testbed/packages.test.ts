import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findProgram, installCommand, missingPrograms, PACKAGES } from './packages.ts';

test('findProgram() finds a program by its name, and nothing for a name that is not there', () => {
  assert.match(findProgram('sh') ?? '', /\/sh$/);
  assert.equal(findProgram('no-such-program'), undefined);
});

test('missingPrograms() is false where all are there, else the reason to skip', () => {
  assert.equal(missingPrograms('sh', 'cat'), false);
  assert.equal(missingPrograms('sh', 'no-such-program'), 'not on this machine: no-such-program');
});

test('installCommand() is what a person types', () => {
  const names = PACKAGES.slice(0, 2).map(({ name }) => name);
  const expected =
    'sudo apt-get update && sudo apt-get install -y --no-install-recommends openssl gnutls-bin';
  assert.equal(installCommand(names), expected);
});
