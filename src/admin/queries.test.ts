import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueryError, readConnectionsQuery, readExplainQuery } from './queries.ts';

const query = (text: string) => {
  const params = new URLSearchParams(text);
  return (name: string) => params.get(name) ?? undefined;
};

test('readConnectionsQuery() reads limit and cluster, 100 of all by default', () => {
  assert.deepEqual(readConnectionsQuery(query('')), { limit: 100, cluster: undefined });
  assert.deepEqual(readConnectionsQuery(query('limit=&cluster=')), { limit: 100, cluster: undefined });
  assert.deepEqual(readConnectionsQuery(query('limit=10000&cluster=a')), { limit: 10_000, cluster: 'a' });
});

test('readConnectionsQuery() says what limit may be', () => {
  for (const limit of ['0', '-1', '1.5', '10001', 'x', '1e3', ' 5', '99999999999999999999'])
    assert.throws(() => readConnectionsQuery(query(`limit=${limit}`)), QueryError, limit);
});

test('readExplainQuery() reads the question, empty fields as none', () => {
  assert.deepEqual(readExplainQuery(query('host=a.test&from=&protocol=&id=&on=')), {
    host: 'a.test',
    protocol: 'tls',
  });
  assert.deepEqual(readExplainQuery(query('id=x&from=192.0.2.1&on=:6443')), {
    host: '',
    protocol: 'tls',
    id: 'x',
    from: '192.0.2.1',
    on: ':6443',
  });
});

test('readExplainQuery() says what is wrong with a question', () => {
  for (const [text, expected] of [
    ['', /Name a host/],
    ['host=a&protocol=quic', /protocol must be one of tls, http, connect: current value is 'quic'/],
    ['id=a&protocol=connect', /give the id as host/],
  ] as const)
    assert.throws(() => readExplainQuery(query(text)), expected);
});
