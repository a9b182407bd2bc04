import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diagnosisText } from './doctor-text.ts';

const plain = (_: string, text: string) => text;

test('diagnosisText() groups by cluster, in the order of the steps, with what to do below', () => {
  const text = diagnosisText(
    {
      checks: [
        { step: 'config', cluster: null, status: 'ok', code: 'Ok', text: '1 cluster', fix: null },
        { step: 'dns', cluster: 'a', status: 'warn', code: 'DnsTtlLong', text: 'long', fix: 'Lower it' },
        { step: 'tls', cluster: 'a', status: 'fail', code: 'TlsFailed', text: 'x\u001b[31m', fix: 'Look' },
      ],
      notChecked: [{ step: 'route', cluster: 'a', why: 'no hosts' }],
    },
    plain,
  );
  assert.equal(
    text,
    `gateway
  ✓ config       1 cluster

cluster a
  ! dns          DnsTtlLong: long
                 → Lower it
  – route        not checked: no hosts
  ✗ tls          TlsFailed: x\\u001b[31m
                 → Look

1 failure, 1 warning, 1 ok. What each code means: docs/troubleshoot.md
`,
  );
});

test('diagnosisText() says that nothing is wrong', () => {
  assert.match(diagnosisText({ checks: [], notChecked: [] }, plain), /ok: 0 checks, nothing is wrong/);
});
