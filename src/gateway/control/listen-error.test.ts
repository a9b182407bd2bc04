import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DENIED, IN_USE, NOT_AVAILABLE } from '../io/reactor.ts';
import { ListenError } from './listen-error.ts';

test('ListenError explains what to do about a privileged port', () => {
  for (const on of [':443', '192.0.2.1:443', '[::1]:443', '127.0.0.1:443 (admin.on)']) {
    assert.equal(
      new ListenError(on, DENIED).message,
      `Cannot listen on '${on}': permission denied; ports below 1024 are privileged. Under systemd set AmbientCapabilities=CAP_NET_BIND_SERVICE, else run sysctl -w net.ipv4.ip_unprivileged_port_start=443, or give the node that runs causeway the right: setcap cap_net_bind_service=+ep NODE`,
    );
  }
});

test('ListenError gives that advice for no other port and no other error', () => {
  for (const on of [':6443', '/run/socket', ':1024'])
    assert.equal(new ListenError(on, DENIED).message, `Cannot listen on '${on}': permission denied`);
  assert.match(
    new ListenError(':443', IN_USE).message,
    /in use by another process(?: \(.*\))?; stop it or choose another port$/,
  );
  assert.match(new ListenError(':443', NOT_AVAILABLE).message, /no such address$/);
  assert.equal(new ListenError(':443', 'a sentence').message, "Cannot listen on ':443': a sentence");
});
