import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { test } from 'node:test';
import { portOwner } from './port-owner.ts';

test('portOwner() names the process and the user that listen on a port', async () => {
  for (const host of ['127.0.0.1', '::1']) {
    await using server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { username } = userInfo();
    assert.match(portOwner(port) ?? '', new RegExp(`^\\S.*, process ${process.pid}, user ${username}$`));
    server.close();
    await once(server, 'close');
    assert.equal(portOwner(port), undefined);
  }
});
