import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { test } from 'node:test';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { beginReplacement, servingPeer } from './predecessor.ts';

/** A process that exists, and is not this one. */
const OTHER = process.ppid;
const ANSWER_MS = 200;

/** A socket of that process that answers every line so, or never. */
async function peer(dir: TempDir, answer: string | undefined, pid = OTHER): Promise<Server> {
  const server = createServer(socket => {
    socket.on('error', () => {});
    socket.on('data', () => answer !== undefined && socket.write(answer));
  });
  server.listen(dir.file(`${pid}.sock`));
  await new Promise(resolve => server.once('listening', resolve));
  return server;
}

test('servingPeer() removes sockets that nobody listens on, and nothing else', async () => {
  await using dir = await tempDir();
  await mkdir(dir.file('folder'));
  await using _ = await peer(dir, '{"kind":"gateway","pid":1,"phase":"draining"}\n');
  // Of a process that is gone, and of one that lives and is not ours.
  for (const name of ['4194305.sock', '1.sock', `${process.pid}.sock`, 'x.sock', 'note'])
    await writeFile(dir.file(name), '');
  assert.equal(await servingPeer(dir.path, process.pid, ANSWER_MS), undefined);
  assert.deepEqual(
    (await readdir(dir.path)).toSorted(),
    ['folder', 'note', 'x.sock', `${OTHER}.sock`, `${process.pid}.sock`].toSorted(),
  );
});

test('servingPeer() finds the process that serves, or is about to, or does not answer', async () => {
  const answers: [string | undefined, string | undefined][] = [
    ['{"kind":"gateway","pid":1,"phase":"serving"}\n', 'serving'],
    ['{"kind":"gateway","pid":1,"phase":"starting"}\n', 'starting'],
    ['{"kind":"gateway","pid":1,"phase":"draining"}\n', undefined],
    [undefined, 'serving'],
    // Another program's socket.
    ['HTTP/1.1 400 Bad Request\r\n\r\n', undefined],
    ['null\n', undefined],
  ];
  for (const [answer, phase] of answers) {
    await using dir = await tempDir();
    await using _ = await peer(dir, answer);
    assert.equal((await servingPeer(dir.path, process.pid, ANSWER_MS))?.phase, phase, String(answer));
  }
});

test('beginReplacement() gives up on a process that serves and hands nothing over', async () => {
  for (const answer of ['nonsense\n', '{"kind":"connections","count":1}\n', undefined]) {
    await using dir = await tempDir();
    await using server = createServer(socket => {
      socket.on('error', () => {});
      socket.on('data', chunk => {
        if (String(chunk).includes('who')) socket.write('{"kind":"gateway","pid":1,"phase":"serving"}\n');
        else if (answer === undefined) socket.destroy();
        else socket.write(answer);
      });
    }).listen(dir.file(`${OTHER}.sock`));
    await new Promise(resolve => server.once('listening', resolve));
    await assert.rejects(
      beginReplacement(dir.path, process.pid, ANSWER_MS),
      /^ReplaceError: The gateway \(process \d+\) does not hand its listeners over; its log says why$/,
    );
  }
});

test('beginReplacement() finds nobody in an empty folder, nor behind sockets that nobody listens on', async () => {
  await using dir = await tempDir();
  assert.equal(await beginReplacement(dir.path, process.pid), undefined);
  await writeFile(dir.file(`${OTHER}.sock`), '');
  assert.equal(await beginReplacement(dir.path, process.pid), undefined);
});
