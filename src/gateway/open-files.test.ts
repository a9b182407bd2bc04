import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFilesWarning, roomIn } from './open-files.ts';

test('roomIn() reserves 512 descriptors for everything else, and leaves clients a few under a small limit', () => {
  for (const [openFiles, connections] of [
    [1_048_576, 524_032],
    [20_000, 9744],
    [1024, 256],
    [256, 32],
    [64, 8],
    [4, 1],
  ])
    assert.equal(roomIn(openFiles).connections, connections, `${openFiles}`);
});

test('roomIn() keeps some descriptors from clients, more under a larger limit', () => {
  for (const [openFiles, spare] of [
    [1_048_576, 256],
    [20_000, 256],
    [1024, 128],
    [256, 32],
    [64, 16],
  ])
    assert.equal(openFiles - roomIn(openFiles).clientFiles, spare, `${openFiles}`);
});

test('openFilesWarning() states both numbers when limits.connections does not fit', () => {
  assert.equal(openFilesWarning(9744, 20_000), undefined);
  assert.match(openFilesWarning(9745, 20_000) ?? '', /^9745 connections .* 20000, .* set at most 9744$/);
  assert.match(openFilesWarning(1000, 256) ?? '', /^1000 connections .* 256, .* set at most 32$/);
});

test('openFilesWarning() warns of a small limit, unless the file sets limits.connections', () => {
  assert.equal(openFilesWarning(undefined, 1024), undefined);
  assert.match(
    openFilesWarning(undefined, 256) ?? '',
    /^the open-file limit of this process, 256, has room for 32 /,
  );
  assert.equal(openFilesWarning(32, 256), undefined);
});
