import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, property, string } from 'fast-check';
import { printable } from '../text/printable.ts';
import { formatHaproxyAlert, parseHaproxyAlerts } from './haproxy-alerts.ts';

/** HAProxy 2.6 and 3.0. */
const OUTPUT = `[NOTICE]   (4242) : haproxy version is 2.6.12-1+deb12u4
[NOTICE]   (4242) : path to executable is /usr/sbin/haproxy
[ALERT]    (4242) : config : parsing [/run/causeway/haproxy.cfg:12] : unknown keyword 'bnd' in 'frontend' section; did you mean 'bind' maybe ?
[WARNING]  (4242) : config : missing timeouts for frontend 'x'.
   | While not properly invalid, you will certainly encounter various problems
[ALERT]    (4242) : config : Error(s) found in configuration file : /run/causeway/haproxy.cfg
[ALERT]    (4242) : config : Fatal errors found in configuration.
`;

test("parseHaproxyAlerts() keeps HAProxy's own messages with their lines", () => {
  assert.deepEqual(parseHaproxyAlerts(OUTPUT), [
    {
      level: 'alert',
      line: 12,
      text: "unknown keyword 'bnd' in 'frontend' section; did you mean 'bind' maybe ?",
    },
    { level: 'warning', text: "missing timeouts for frontend 'x'" },
  ]);
  assert.equal(
    formatHaproxyAlert(parseHaproxyAlerts(OUTPUT)[0]),
    "HAProxy: line 12: unknown keyword 'bnd' in 'frontend' section; did you mean 'bind' maybe ?",
  );
});

test('parseHaproxyAlerts() reads what a start says', () => {
  const [bind] = parseHaproxyAlerts(
    '[ALERT]    (7) : Binding [/x.cfg:3] for frontend f: cannot bind socket (Address already in use) for [127.0.0.1:80]',
  );
  assert.match(bind.text, /^Binding .*Address already in use/);
  const [old] = parseHaproxyAlerts("[ALERT] 319/120000 (7) : parsing [/x.cfg:3] : unknown keyword 'x'");
  assert.deepEqual(old, { level: 'alert', line: 3, text: "unknown keyword 'x'" });
});

test('parseHaproxyAlerts() is bounded, printable, and never throws', () => {
  assert.equal(parseHaproxyAlerts('[ALERT] (1) : x\n'.repeat(1000)).length, 20);
  check(
    property(string({ unit: 'binary' }), rest => {
      for (const { text } of parseHaproxyAlerts(`[ALERT] (1) : ${rest}`)) {
        assert.equal(printable(text), text);
        assert.ok(text.length <= 4 * 500);
      }
    }),
  );
});
