import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findProgram, installCommand, missingPrograms, PACKAGES } from './packages.ts';

test('findProgram() finds a program by name, and returns undefined for an unknown name', () => {
  assert.match(findProgram('sh') ?? '', /\/sh$/);
  assert.equal(findProgram('no-such-program'), undefined);
});

test('missingPrograms() returns false if all are installed, else the reason to skip', () => {
  assert.equal(missingPrograms('sh', 'cat'), false);
  assert.equal(missingPrograms('sh', 'no-such-program'), 'not on this machine: no-such-program');
});

test('installCommand() returns the command that a person types', () => {
  const names = PACKAGES.slice(0, 2).map(({ name }) => name);
  const expected =
    'sudo apt-get update && sudo apt-get install -y --no-install-recommends openssl gnutls-bin';
  assert.equal(installCommand(names), expected);
});
