import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Report } from './check.ts';
import { checkHaproxy } from './check-haproxy.ts';

function found(...lines: readonly string[]): readonly string[] {
  const report = new Report(null);
  checkHaproxy('haproxy.cfg', lines.join('\n'), report);
  return report.checks.map(({ code, text }) => `${code} ${text.split(': ', 1)}`);
}

test('checkHaproxy() warns of an ACL on fc_pp_tlv, with its line', () => {
  assert.deepEqual(found('frontend f', '  acl a fc_pp_tlv(0x20) -m str x'), ['HaproxyTlvAcl haproxy.cfg:2']);
  assert.deepEqual(found('  use_backend a if { fc_pp_tlv(0x20) -m str x }'), ['HaproxyTlvAcl haproxy.cfg:1']);
});

test('checkHaproxy() is content with a variable, a comment, and UNIQUE_ID', () => {
  assert.deepEqual(
    found(
      '  tcp-request content set-var(sess.cid) fc_pp_tlv(0x20)',
      '  acl a var(sess.cid) -m str x',
      '  # acl a fc_pp_tlv(0x20) -m str x',
      '  acl b fc_pp_unique_id -m str x',
    ),
    [],
  );
});
