// A HAProxy beside the gateway, as people have who come from one. An ACL directly on fc_pp_tlv that does not match loops in
// HAProxy 3.0 until its watchdog ends the process (haproxy#3482), so that one connection with another cluster's id ends the
// proxy for everybody.

import type { Report } from './check.ts';

/** `acl a fc_pp_tlv(0x20) …`, or an anonymous one. What is fetched into a variable first is safe. */
const TLV_ACL = /^\s*(?:acl\s+\S+\s+|[^#\n]*\{\s*)fc_pp_tlv\(/;

export function checkHaproxy(file: string, text: string, report: Report): void {
  const lines = text.split('\n');
  const first = lines.findIndex(line => TLV_ACL.test(line));
  if (first < 0) return;
  const why = `${file}:${first + 1}: an ACL on fc_pp_tlv that does not match loops in HAProxy 3.0 until its watchdog ends the process: one connection with another id is enough`;
  const fix =
    'Fetch it once and compare the variable: tcp-request content set-var(sess.cid) fc_pp_tlv(0x20), then acl a var(sess.cid) -m str ID; causeway render haproxy writes it so';
  report.warn('config', 'HaproxyTlvAcl', why, fix);
}
