import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { ownAddresses } from './own-addresses.ts';

const of = (address: string) =>
  ({ address, family: address.includes(':') ? 'IPv6' : 'IPv4' }) as NetworkInterfaceInfo;
const INTERFACES = {
  lo: [of('127.0.0.1'), of('::1')],
  eth0: [of('192.0.2.1'), of('192.0.2.1'), of('2001:db8::1'), of('fe80::1'), of('febf::2')],
};

test('ownAddresses() lists the addresses of the machine, without link-local ones', () => {
  assert.deepEqual(ownAddresses({ host: '' }, INTERFACES), ['127.0.0.1', '::1', '192.0.2.1', '2001:db8::1']);
  assert.deepEqual(ownAddresses({ host: '0.0.0.0' }, INTERFACES), ['127.0.0.1', '192.0.2.1']);
  assert.deepEqual(ownAddresses({ host: '::' }, INTERFACES), ['::1', '2001:db8::1']);
  assert.deepEqual(ownAddresses({ host: '192.0.2.7' }, INTERFACES), ['192.0.2.7']);
  assert.deepEqual(ownAddresses({ host: 'localhost' }, INTERFACES), ['127.0.0.1']);
});

test('ownAddresses() takes all at once where there are too many', () => {
  const ipvs = Array.from({ length: 200 }, (_, i) => of(`10.0.0.${i}`));
  assert.deepEqual(ownAddresses({ host: '' }, { ipvs }), ['0.0.0.0', '::']);
  assert.deepEqual(ownAddresses({ host: '0.0.0.0' }, { ipvs }), ['0.0.0.0']);
});
